"""The operations under /v1/signals."""

from collections.abc import Sequence
from typing import Final

from mintscope.base.clock import Clock
from mintscope.base.errors import ErrorCode
from mintscope.core.accounts.signals.signals import TESTS
from mintscope.edges.api.accounts.routes import AccountParts
from mintscope.edges.api.description.operation import Operation
from mintscope.edges.api.holdings.routes import EVERY_ROUTE, KEY, WITH_BODY
from mintscope.edges.api.signals import texts, wire
from mintscope.edges.api.signals.handlers import SignalRoutes
from mintscope.edges.server.rate_limit import AddressLimits

OF_ONE: Final = (*EVERY_ROUTE, ErrorCode.NOT_FOUND)
MAKING: Final = (
    *WITH_BODY,
    ErrorCode.INVALID_TOKEN_ADDRESS,
    ErrorCode.NOT_FOUND,
    ErrorCode.IDEMPOTENCY_KEY_USED,
)


def signal_operations(
    parts: AccountParts, *, limits: AddressLimits, clock: Clock
) -> Sequence[Operation]:
    """Return the operations under /v1/signals."""
    signals = SignalRoutes(
        gate=parts.gate(limits),
        signals=parts.signals,
        tests=limits.by_account(TESTS),
        clock=clock,
    )
    return [*_of_signals(signals), *_of_one(signals)]


def _of_signals(signals: SignalRoutes) -> list[Operation]:
    # fmt: off
    return [
        Operation(
            "GET", "/v1/signals", signals.list_signals, wire.SignalList,
            "Alert rules of the account", description=texts.LIST,
            refusals=EVERY_ROUTE, proofs=KEY,
        ),
        Operation(
            "POST", "/v1/signals", signals.make_signal, wire.MadeSignal,
            "Make an alert rule", description=texts.MAKE, takes_key=True,
            refusals=MAKING, status=201, proofs=KEY, body=wire.NEW_SIGNAL,
        ),
    ]
    # fmt: on


def _of_one(signals: SignalRoutes) -> list[Operation]:
    # fmt: off
    return [
        Operation(
            "GET", "/v1/signals/{signalId}", signals.get_signal, wire.SignalLine,
            "An alert rule", description=texts.GET, refusals=OF_ONE, proofs=KEY,
        ),
        Operation(
            "PATCH", "/v1/signals/{signalId}", signals.change_signal, wire.SignalLine,
            "Change an alert rule", description=texts.CHANGE,
            refusals=(*WITH_BODY, ErrorCode.NOT_FOUND), proofs=KEY, body=wire.ChangedSignal,
        ),
        Operation(
            "DELETE", "/v1/signals/{signalId}", signals.delete_signal, wire.SignalList,
            "Delete an alert rule", description=texts.DELETE, refusals=OF_ONE, proofs=KEY,
        ),
        Operation(
            "GET", "/v1/signals/{signalId}/events", signals.list_signal_events, wire.Events,
            "What an alert rule has fired, newest first", description=texts.EVENTS,
            refusals=OF_ONE, proofs=KEY, query=wire.EventsQuery,
        ),
        Operation(
            "POST", "/v1/signals/{signalId}/secret", signals.renew_webhook_secret, wire.MadeSignal,
            "Make another webhook secret", description=texts.RENEW,
            refusals=OF_ONE, status=201, proofs=KEY,
        ),
        Operation(
            "POST", "/v1/signals/{signalId}/test", signals.test_signal, wire.EventLine,
            "Send a test of an alert rule", description=texts.TEST,
            refusals=OF_ONE, status=201, proofs=KEY,
        ),
    ]
    # fmt: on
