"""The signals of a user: made, changed, tried out, deleted; and what they have fired."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from mintscope.base.clock import Clock
from mintscope.base.errors import (
    BadRequest,
    ErrorCode,
    IdempotencyKeyUsed,
    NotFound,
    ServiceError,
    ServiceUnavailable,
)
from mintscope.core.accounts.keys.scope import Scope
from mintscope.core.accounts.signals.signal import (
    FiringId,
    Signal,
    SignalDenied,
    SignalId,
    SignalRule,
)
from mintscope.core.accounts.signals.signals import Signals
from mintscope.edges.api.accounts.key_gate import KeyGate
from mintscope.edges.api.data.cursor import decode_cursor, encode_cursor
from mintscope.edges.api.data.query import read_query
from mintscope.edges.api.description.operation import EVERY_ROUTE, KEY, WITH_BODY, Operation
from mintscope.edges.api.holdings.body import read_body
from mintscope.edges.api.signals.lines import changes_of, event_of, line_facts, line_of, rule_of
from mintscope.edges.api.signals.wire import (
    NEW_SIGNAL,
    ChangedSignal,
    EventLine,
    EventPosition,
    Events,
    EventsQuery,
    MadeSignal,
    SignalLine,
    SignalList,
)
from mintscope.edges.api.wire import success
from mintscope.edges.api.x402 import idempotency_key
from mintscope.edges.server.rate_limit import RateLimit
from mintscope.edges.server.request import Request, parse_id
from mintscope.edges.server.response import Response

OF_ONE: Final = (*EVERY_ROUTE, ErrorCode.NOT_FOUND)
MAKING: Final = (
    *WITH_BODY,
    ErrorCode.INVALID_TOKEN_ADDRESS,
    ErrorCode.NOT_FOUND,
    ErrorCode.IDEMPOTENCY_KEY_USED,
)
NO_MORE: Final = "expected at most {most} signals: delete one before"
NO_MORE_OF_ALL: Final = "There are as many signals as this service looks at."
NO_MORE_MINTS: Final = "The signals of this service look at as many tokens as they can."
UNVERIFIED: Final = "email: expected an account whose e-mail address is verified"
KEY_USED: Final = "The Idempotency-Key was sent with another request before; nothing was made."


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalRoutes:
    """Keeps signals for the user of an API key."""

    gate: KeyGate
    signals: Signals
    tests: RateLimit
    clock: Clock

    @Operation(
        "GET", "/v1/signals", SignalList, refusals=EVERY_ROUTE, proofs=KEY, scope=Scope.SIGNALS_READ
    )
    async def list_signals(self, request: Request) -> Response:
        """Alert rules of the account.

        Returns the signals of the account of the API key, in the order in which they were made.
        Costs nothing.
        """
        holder = await self.gate.authorize(request, Scope.SIGNALS_READ)
        return self._list(request, await self.signals.of_user(holder.key.user_id))

    @Operation(
        "POST",
        "/v1/signals",
        MadeSignal,
        takes_key=True,
        refusals=MAKING,
        status=201,
        proofs=KEY,
        body=NEW_SIGNAL,
        scope=Scope.SIGNALS_WRITE,
    )
    async def make_signal(self, request: Request) -> Response:
        """Make an alert rule.

        Makes an alert rule over one number of a token's report, checked after every slot with a
        trade of it. It fires when the number crosses a level or another number, or moves so many
        percent within a window: once, hourly or each time, as `fires` says; the first look fires
        nothing. With candles=closed it is checked as each minute ends. Webhooks are signed with
        webhookSecret, shown only here (Standard Webhooks), and retried for 24 hours. An account may
        hold 20. Costs nothing.
        """
        holder = await self.gate.authorize(request, Scope.SIGNALS_WRITE)
        key, asked = idempotency_key(request), rule_of(await read_body(request, NEW_SIGNAL))
        self._expect_sound(asked)
        made = await self.signals.make(holder.key.user_id, asked, key)
        if isinstance(made, SignalDenied):
            raise self._refusal(made)
        return self._with_secret(request, made, status=201)

    @Operation(
        "GET",
        "/v1/signals/{signalId}",
        SignalLine,
        refusals=OF_ONE,
        proofs=KEY,
        scope=Scope.SIGNALS_READ,
    )
    async def get_signal(self, request: Request) -> Response:
        """An alert rule.

        Returns a signal. One of another account is not found. Costs nothing.
        """
        holder = await self.gate.authorize(request, Scope.SIGNALS_READ)
        found = await self.signals.find(holder.key.user_id, _signal_id(request))
        return self._one(request, found)

    @Operation(
        "PATCH",
        "/v1/signals/{signalId}",
        SignalLine,
        refusals=(*WITH_BODY, ErrorCode.NOT_FOUND),
        proofs=KEY,
        body=ChangedSignal,
        scope=Scope.SIGNALS_WRITE,
    )
    async def change_signal(self, request: Request) -> Response:
        """Change an alert rule.

        Changes what is named, and nothing else; the mint, the fields and the kind stay. After
        another level, margin, percent, window, candles, fires or expiresAt, and after being
        inactive, the signal begins again: its first look fires nothing. A webhook that was disabled
        is tried again once it has another address, or was inactive and is active again. Costs
        nothing.
        """
        holder = await self.gate.authorize(request, Scope.SIGNALS_WRITE)
        signal_id = _signal_id(request)
        changes = changes_of(await read_body(request, ChangedSignal))

        def edit(before: SignalRule) -> SignalRule:
            asked = replace(before, **changes)
            self._expect_sound(asked)
            return asked

        changed = await self.signals.change(holder.key.user_id, signal_id, edit)
        if isinstance(changed, SignalDenied):
            raise self._refusal(changed)
        return self._one(request, changed)

    @Operation(
        "DELETE",
        "/v1/signals/{signalId}",
        SignalList,
        refusals=OF_ONE,
        proofs=KEY,
        scope=Scope.SIGNALS_WRITE,
    )
    async def delete_signal(self, request: Request) -> Response:
        """Delete an alert rule.

        Deletes a signal and its events, and returns the signals that are left. Costs nothing.
        """
        holder = await self.gate.authorize(request, Scope.SIGNALS_WRITE)
        left = await self.signals.delete(holder.key.user_id, _signal_id(request))
        if left is None:
            raise NotFound
        return self._list(request, left)

    @Operation(
        "GET",
        "/v1/signals/{signalId}/events",
        Events,
        refusals=OF_ONE,
        proofs=KEY,
        query=EventsQuery,
        scope=Scope.SIGNALS_READ,
    )
    async def list_signal_events(self, request: Request) -> Response:
        """What an alert rule has fired, newest first.

        Returns what a signal has fired in the last 30 days, newest first, and what became of the
        webhook and the e-mail. Costs nothing.
        """
        holder = await self.gate.authorize(request, Scope.SIGNALS_READ)
        signal_id = _signal_id(request)
        query = read_query(request, EventsQuery)
        before = None
        if query.cursor is not None:
            before = FiringId(decode_cursor(query.cursor, EventPosition).event_id)
        found = await self.signals.firings(holder.key.user_id, signal_id, before, query.limit + 1)
        if found is None:
            raise NotFound
        page = found[: query.limit]
        cursor = None
        if len(found) > query.limit:
            cursor = encode_cursor(EventPosition(page[-1].firing_id))
        events = Events(events=[event_of(each) for each in page], next_cursor=cursor)
        return success(request, events, at=self.clock.now())

    @Operation(
        "POST",
        "/v1/signals/{signalId}/secret",
        MadeSignal,
        refusals=OF_ONE,
        status=201,
        proofs=KEY,
        scope=Scope.SIGNALS_WRITE,
    )
    async def renew_webhook_secret(self, request: Request) -> Response:
        """Make another webhook secret.

        Makes another webhook secret and returns it, this once. For 24 hours webhooks are signed
        with both. Costs nothing.
        """
        holder = await self.gate.authorize(request, Scope.SIGNALS_WRITE)
        renewed = await self.signals.renew_secret(holder.key.user_id, _signal_id(request))
        if renewed is None:
            raise NotFound
        return self._with_secret(request, renewed, status=201)

    @Operation(
        "POST",
        "/v1/signals/{signalId}/test",
        EventLine,
        refusals=OF_ONE,
        status=201,
        proofs=KEY,
        scope=Scope.SIGNALS_WRITE,
    )
    async def test_signal(self, request: Request) -> Response:
        """Send a test of an alert rule.

        Notifies the owner of a signal now, as if it fired, with a made-up number; the webhook has
        the type `signal.test`. Ten times an hour. Costs nothing.
        """
        holder = await self.gate.authorize(request, Scope.SIGNALS_WRITE)
        signal_id = _signal_id(request)
        await self.tests.pass_through(request, holder.key.user_id)
        firing = await self.signals.test(holder.key.user_id, signal_id)
        if firing is None:
            raise NotFound
        return success(request, event_of(firing), at=self.clock.now(), status=201)

    def _expect_sound(self, asked: SignalRule) -> None:
        flaw = self.signals.flaw(asked)
        if flaw is not None:
            raise BadRequest(f"body: {flaw}")

    def _refusal(self, denied: SignalDenied) -> ServiceError:
        refusals: Mapping[SignalDenied, ServiceError] = {
            SignalDenied.NOT_FOUND: NotFound(),
            SignalDenied.TOO_MANY: BadRequest(
                NO_MORE.format(most=self.signals.bounds.per_user_max)
            ),
            SignalDenied.TOO_MANY_OF_ALL: ServiceUnavailable(NO_MORE_OF_ALL),
            SignalDenied.TOO_MANY_MINTS: ServiceUnavailable(NO_MORE_MINTS),
            SignalDenied.UNVERIFIED: BadRequest(UNVERIFIED),
            SignalDenied.KEY_USED: IdempotencyKeyUsed(KEY_USED),
        }
        return refusals[denied]

    def _list(self, request: Request, signals: Sequence[Signal]) -> Response:
        lines = SignalList(signals=[line_of(each) for each in signals])
        return success(request, lines, at=self.clock.now())

    def _one(self, request: Request, signal: Signal | None) -> Response:
        if signal is None:
            raise NotFound
        return success(request, line_of(signal), at=self.clock.now())

    def _with_secret(self, request: Request, signal: Signal, status: int) -> Response:
        made = MadeSignal(**line_facts(signal), webhook_secret=self.signals.secret(signal))
        return success(request, made, at=self.clock.now(), status=status)


def _signal_id(request: Request) -> SignalId:
    return SignalId(parse_id(request.path_params["signalId"]))
