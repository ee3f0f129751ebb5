"""The operations of accounts: /api, and /v1/me."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from mintscope.base.clock import Clock
from mintscope.base.errors import ErrorCode
from mintscope.base.limits import Limit
from mintscope.base.time import HOUR_S
from mintscope.core.accounts.holdings.account_credits import AccountCredits
from mintscope.core.accounts.holdings.linking import Wallets
from mintscope.core.accounts.holdings.watching import Watchlists
from mintscope.core.accounts.keys.api_keys import ApiKeys
from mintscope.core.accounts.keys.own_key import OwnKeys
from mintscope.core.accounts.signals.signals import Signals
from mintscope.core.accounts.signups.exchange import Exchanges
from mintscope.core.accounts.signups.signups import Signups
from mintscope.edges.api.accounts import texts, wire
from mintscope.edges.api.accounts.handlers import AccountRoutes
from mintscope.edges.api.accounts.key_gate import KeyGate
from mintscope.edges.api.accounts.limits import ExchangeLimit
from mintscope.edges.api.accounts.own_key import OwnKeyRoutes
from mintscope.edges.api.description.operation import CREDENTIAL, Operation
from mintscope.edges.api.failures import BOTH_SHAPES, MESSAGES_ONLY
from mintscope.edges.server.rate_limit import AddressLimits
from mintscope.edges.server.write_budget import WRITES, WRITES_OF_ALL, WriteBudget

EVERY_ROUTE: Final = (
    ErrorCode.VALIDATION_ERROR,
    ErrorCode.PAYLOAD_TOO_LARGE,
    ErrorCode.RATE_LIMITED,
    ErrorCode.SERVICE_UNAVAILABLE,
)
SIGNUP: Final = Limit(name="signup", count=5, window_s=HOUR_S)
EXCHANGE: Final = Limit(name="exchange", count=1, window_s=5)
ACCOUNTS: Final = Limit(name="accounts", count=60, window_s=60)
KEY: Final = Limit(name="key", count=60, window_s=60)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountParts:
    """The keeper of the accounts, and the limits of requests to it."""

    signup: Signups
    exchange: Exchanges
    keys: ApiKeys
    credits: AccountCredits
    wallets: Wallets
    watchlists: Watchlists
    signals: Signals
    signup_limit: Limit = SIGNUP
    exchange_limit: Limit = EXCHANGE
    limit: Limit = ACCOUNTS
    key_limit: Limit = KEY
    writes: Limit = WRITES
    writes_of_all: Limit = WRITES_OF_ALL

    def gate(self, limits: AddressLimits) -> KeyGate:
        """Return who lets the holders of API keys in."""
        budget = WriteBudget(limits.limits, of_account=self.writes, of_all=self.writes_of_all)
        return KeyGate(keys=self.keys, limit=self.key_limit, limits=limits, writes=budget)


def account_operations(
    parts: AccountParts, *, limits: AddressLimits, clock: Clock
) -> Sequence[Operation]:
    """Return the operations under /api, and under /v1/me."""
    gate = parts.gate(limits)
    own = OwnKeys(parts.keys)
    accounts = AccountRoutes(
        signup=parts.signup,
        exchange=parts.exchange,
        own_keys=own,
        gate=gate,
        everything=limits.of(parts.limit),
        signups=limits.of(parts.signup_limit),
        exchanges=ExchangeLimit(parts.exchange_limit, limits.limits),
        addresses=limits.addresses,
        clock=clock,
    )
    of_key = OwnKeyRoutes(gate=gate, own=own, clock=clock)
    return [*_applying(accounts), *_holding(accounts), *_of_own_key(of_key)]


def _applying(accounts: AccountRoutes) -> Sequence[Operation]:
    # fmt: off
    return [
        Operation(
            "POST", "/api/public/beta-signup", accounts.apply_for_key, wire.BetaSignedUp,
            "Apply for an API key", description=texts.APPLY, takes_key=True,
            refusals=(*EVERY_ROUTE, ErrorCode.DUPLICATE_APPLICATION), status=201,
            body=wire.BetaSignup, error_format=BOTH_SHAPES,
        ),
        Operation(
            "POST", "/api/auth/confirm-email", accounts.confirm_email, wire.Confirmed,
            "Confirm the mailbox of an application with the code that was sent there",
            description=texts.CONFIRM,
            refusals=(*EVERY_ROUTE, ErrorCode.INVALID_CREDENTIALS),
            body=wire.Confirmation, error_format=BOTH_SHAPES,
        ),
        Operation(
            "POST", "/api/auth/application-status", accounts.get_application_status, wire.Standing,
            "How far an application is", description=texts.STATUS,
            refusals=(*EVERY_ROUTE, ErrorCode.INVALID_CREDENTIALS, ErrorCode.ACCOUNT_NOT_FOUND),
            body=wire.Credentials, error_format=BOTH_SHAPES,
        ),
    ]
    # fmt: on


def _holding(accounts: AccountRoutes) -> Sequence[Operation]:
    # fmt: off
    return [
        Operation(
            "POST", "/api/auth/exchange-secret", accounts.exchange_secret, wire.Exchanged,
            "Exchange the secret of an approved application for the API key, once",
            description=texts.EXCHANGE, takes_key=True,
            refusals=(
                *EVERY_ROUTE, ErrorCode.INVALID_CREDENTIALS, ErrorCode.NOT_APPROVED,
                ErrorCode.INVALID_SECRET_FORMAT, ErrorCode.ACCOUNT_NOT_FOUND,
                ErrorCode.KEY_ALREADY_EXISTS,
            ),
            body=wire.Credentials, error_format=MESSAGES_ONLY,
        ),
        Operation(
            "GET", "/v1/me", accounts.get_me, wire.Me, "Whose an API key is, and what it allows",
            description=texts.ME,
            refusals=(
                ErrorCode.MISSING_TOKEN, ErrorCode.INVALID_TOKEN,
                ErrorCode.RATE_LIMITED, ErrorCode.SERVICE_UNAVAILABLE,
            ),
            proofs=(("apiKey",),),
        ),
    ]
    # fmt: on


def _of_own_key(routes: OwnKeyRoutes) -> Sequence[Operation]:
    refusals = (*CREDENTIAL, ErrorCode.RATE_LIMITED, ErrorCode.SERVICE_UNAVAILABLE)
    with_body = (*refusals, ErrorCode.BAD_REQUEST, ErrorCode.PAYLOAD_TOO_LARGE)
    # fmt: off
    return [
        Operation(
            "POST", "/v1/me/key/rotate", routes.rotate_own_key, wire.RotatedKeyAnswer,
            "Rotate the API key that is sent, which then ends soon",
            description=texts.ROTATE, takes_key=True,
            refusals=(*with_body, ErrorCode.NOTHING_TO_ROTATE), status=201,
            proofs=(("apiKey",),), body=wire.KeyRotation,
        ),
        Operation(
            "DELETE", "/v1/me/key", routes.revoke_own_key, wire.RevokedKey,
            "Revoke the API key that is sent, at once", description=texts.REVOKE,
            refusals=refusals, proofs=(("apiKey",),),
        ),
        Operation(
            "POST", "/v1/me/key/scopes", routes.ask_for_scopes, wire.ScopesAsked,
            "Ask for scopes that the API key lacks", description=texts.ASK,
            refusals=(*with_body, ErrorCode.OWNER_ONLY),
            proofs=(("apiKey",),), body=wire.AskedScopes,
        ),
    ]
    # fmt: on
