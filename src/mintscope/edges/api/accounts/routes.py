"""The rows of the route table that accounts add."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from mintscope.base.clock import Clock
from mintscope.base.errors import ErrorCode
from mintscope.base.limits import Limit, Limits
from mintscope.base.time import HOUR_S
from mintscope.core.accounts.keys.api_keys import ApiKeys
from mintscope.core.accounts.signups.exchange import Exchanges
from mintscope.core.accounts.signups.signups import Signups
from mintscope.edges.api.accounts.handlers import AccountRoutes
from mintscope.edges.api.accounts.key_gate import KeyGate
from mintscope.edges.api.accounts.limits import ExchangeLimit, SignupLimit
from mintscope.edges.api.accounts.wire import (
    BetaSignedUp,
    BetaSignup,
    Confirmation,
    Confirmed,
    Credentials,
    Exchanged,
    Me,
    Standing,
)
from mintscope.edges.api.failures import BOTH_SHAPES, MESSAGES_ONLY
from mintscope.edges.api.routes import Route
from mintscope.edges.server.client_address import ClientAddresses
from mintscope.edges.server.rate_limit import RateLimit

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
    """Who keeps the accounts, and what may be asked of them how often."""

    signup: Signups
    exchange: Exchanges
    keys: ApiKeys
    signup_limit: Limit = SIGNUP
    exchange_limit: Limit = EXCHANGE
    limit: Limit = ACCOUNTS
    key_limit: Limit = KEY


def account_routes(
    desks: AccountParts, *, addresses: ClientAddresses, limits: Limits, clock: Clock
) -> Sequence[Route]:
    """Return the routes under /api, and /v1/me."""
    gate = KeyGate(keys=desks.keys, limiter=limits.limiter(desks.key_limit), addresses=addresses)
    accounts = AccountRoutes(
        signup=desks.signup,
        exchange=desks.exchange,
        gate=gate,
        everything=RateLimit(limits.limiter(desks.limit)),
        signups=SignupLimit(desks.signup_limit, limits),
        exchanges=ExchangeLimit(desks.exchange_limit, limits),
        addresses=addresses,
        clock=clock,
    )
    return [
        Route(
            method="POST",
            path="/api/public/beta-signup",
            handler=accounts.apply,
            summary="Apply for an API key",
            data=None,
            answer=BetaSignedUp,
            refusals=(*EVERY_ROUTE, ErrorCode.DUPLICATE_APPLICATION),
            status=201,
            body=BetaSignup,
            failing=BOTH_SHAPES,
        ),
        Route(
            method="POST",
            path="/api/auth/confirm-email",
            handler=accounts.confirm_email,
            summary="Confirm the mailbox of an application with the code that was sent there",
            data=None,
            answer=Confirmed,
            refusals=(*EVERY_ROUTE, ErrorCode.INVALID_CREDENTIALS),
            body=Confirmation,
            failing=BOTH_SHAPES,
        ),
        Route(
            method="POST",
            path="/api/auth/application-status",
            handler=accounts.application_status,
            summary="How far an application is",
            data=None,
            answer=Standing,
            refusals=(
                *EVERY_ROUTE,
                ErrorCode.INVALID_CREDENTIALS,
                ErrorCode.ACCOUNT_NOT_FOUND,
            ),
            body=Credentials,
            failing=BOTH_SHAPES,
        ),
        Route(
            method="POST",
            path="/api/auth/exchange-secret",
            handler=accounts.exchange_secret,
            summary="Exchange the secret of an approved application for the API key, once",
            data=None,
            answer=Exchanged,
            refusals=(
                *EVERY_ROUTE,
                ErrorCode.INVALID_CREDENTIALS,
                ErrorCode.NOT_APPROVED,
                ErrorCode.INVALID_SECRET_FORMAT,
                ErrorCode.ACCOUNT_NOT_FOUND,
                ErrorCode.KEY_ALREADY_EXISTS,
            ),
            body=Credentials,
            failing=MESSAGES_ONLY,
        ),
        Route(
            method="GET",
            path="/v1/me",
            handler=accounts.get_me,
            summary="Whose an API key is, and what it allows",
            data=Me,
            refusals=(
                ErrorCode.MISSING_TOKEN,
                ErrorCode.INVALID_TOKEN,
                ErrorCode.RATE_LIMITED,
                ErrorCode.SERVICE_UNAVAILABLE,
            ),
            proofs=(("apiKey",),),
        ),
    ]
