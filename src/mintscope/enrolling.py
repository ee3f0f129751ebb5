"""Accounts in one process: built from the configuration, kept in order while it runs."""

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from mintscope.accounts.exchange import ExchangeDesk
from mintscope.accounts.keys import KeyDesk
from mintscope.accounts.people import PeopleDesk
from mintscope.accounts.review import ReviewDesk
from mintscope.accounts.secrets import AccountSecrets
from mintscope.accounts.session import Lifetimes
from mintscope.accounts.signup import SignupDesk
from mintscope.api.account_routes import ACCOUNTS, EXCHANGE, KEY, SIGNUP, Desks
from mintscope.api.limiter import Limit
from mintscope.clock import Clock
from mintscope.config.sections import AccountsConfig, Config, WebConfig
from mintscope.passwords import Argon2Hasher
from mintscope.storage.sqlite.account_file import AccountFile
from mintscope.storage.sqlite.api_keys import SqliteKeyStore
from mintscope.storage.sqlite.credits import MONEY_FILE
from mintscope.storage.sqlite.exchanges import SqliteExchangeStore
from mintscope.storage.sqlite.people import SqlitePeopleStore
from mintscope.storage.sqlite.reviews import SqliteReviewStore
from mintscope.storage.sqlite.sessions import SqliteSessionStore
from mintscope.storage.sqlite.signups import SqliteSignupStore

MINUTE_MS = 60_000
HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounts:
    """Every desk of this process; they share one file with those of all others."""

    signup: SignupDesk
    exchange: ExchangeDesk
    review: ReviewDesk
    people: PeopleDesk
    keys: KeyDesk


@asynccontextmanager
async def open_accounts(config: Config, *, root: bytes, clock: Clock) -> AsyncIterator[Accounts]:
    """Build the desks.

    root      every secret is derived from it: the pepper of credit tokens
    Raises    UnusableStore
    """
    secrets, entropy = AccountSecrets.derive(root), os.urandom
    async with AsyncExitStack() as stack:
        file = AccountFile(config.data_dir / MONEY_FILE)
        stack.push_async_callback(file.close)
        hasher = Argon2Hasher()
        stack.callback(hasher.close)
        keys = KeyDesk(store=SqliteKeyStore(file), secrets=secrets, clock=clock, entropy=entropy)
        yield Accounts(
            signup=SignupDesk(
                SqliteSignupStore(file), secrets=secrets, clock=clock, entropy=entropy
            ),
            exchange=ExchangeDesk(
                SqliteExchangeStore(file), secrets=secrets, clock=clock, entropy=entropy
            ),
            review=ReviewDesk(SqliteReviewStore(file), clock=clock, entropy=entropy),
            people=PeopleDesk(
                people=SqlitePeopleStore(file),
                sessions=SqliteSessionStore(file),
                hasher=hasher,
                secrets=secrets,
                clock=clock,
                entropy=entropy,
                lifetimes=_lifetimes(config.web),
            ),
            keys=keys,
        )


def desks_of(config: AccountsConfig, accounts: Accounts) -> Desks:
    """Return what the API asks, as often as *config* allows."""
    return Desks(
        signup=accounts.signup,
        exchange=accounts.exchange,
        keys=accounts.keys,
        signup_limit=Limit(
            name=SIGNUP.name,
            count=config.signup_limit_requests,
            window_s=config.signup_limit_window_s,
        ),
        exchange_limit=Limit(
            name=EXCHANGE.name,
            count=config.exchange_limit_requests,
            window_s=config.exchange_limit_window_s,
        ),
        limit=Limit(
            name=ACCOUNTS.name, count=config.limit_requests, window_s=config.limit_window_s
        ),
        key_limit=Limit(
            name=KEY.name, count=config.key_limit_requests, window_s=config.key_limit_window_s
        ),
    )


def _lifetimes(web: WebConfig) -> Lifetimes:
    return Lifetimes(
        idle_ms=web.session_idle_minutes * MINUTE_MS, absolute_ms=web.session_hours_max * HOUR_MS
    )
