"""Accounts in one process: built from the configuration, kept in order while it runs.

always   letters are taken from the outbox and delivered
30 s     the uses of API keys are written down, and once an hour what has lapsed is deleted
"""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Final

import structlog

from mintscope.base.clock import Clock
from mintscope.base.limits import Limit, Limits
from mintscope.base.time import HOUR_MS, MINUTE_MS
from mintscope.core.accounts.keys.api_keys import ApiKeys
from mintscope.core.accounts.mail.outbox import Outbox
from mintscope.core.accounts.people.login_limit import LoginLimits
from mintscope.core.accounts.people.people import People
from mintscope.core.accounts.people.session import Lifetimes
from mintscope.core.accounts.reviews import Reviews
from mintscope.core.accounts.secrets import AccountSecrets
from mintscope.core.accounts.signups.exchange import Exchanges
from mintscope.core.accounts.signups.signups import Signups
from mintscope.edges.api.accounts.routes import ACCOUNTS, EXCHANGE, KEY, SIGNUP, AccountParts
from mintscope.edges.mail.delivery import Delivery
from mintscope.edges.mail.templates import EmailWithoutLink
from mintscope.edges.maintenance.account_maintenance import AccountMaintenance
from mintscope.edges.maintenance.passwords import Argon2Hasher
from mintscope.edges.storage.folder import MONEY_FILE
from mintscope.edges.storage.sqlite.accounts.api_keys import SqliteApiKeyStore
from mintscope.edges.storage.sqlite.accounts.archive import SqliteAccountArchive
from mintscope.edges.storage.sqlite.accounts.exchanges import SqliteExchangeStore
from mintscope.edges.storage.sqlite.accounts.file import AccountFile
from mintscope.edges.storage.sqlite.accounts.outbox import SqliteOutbox
from mintscope.edges.storage.sqlite.accounts.people import SqlitePeopleStore
from mintscope.edges.storage.sqlite.accounts.reviews import SqliteReviewStore
from mintscope.edges.storage.sqlite.accounts.sessions import SqliteSessionStore
from mintscope.edges.storage.sqlite.accounts.signups import SqliteSignupStore
from mintscope.edges.web.mailbox import SentEmail
from mintscope.shell.config.sections import AccountsConfig, Config, WebConfig
from mintscope.shell.wiring.mail import Templates, make_postman

TROUBLE_S: Final = 5.0

log = structlog.get_logger()


class ShownOutbox:
    """The outbox as the page of a demo shows it; implements Mailbox of `web.mailbox`."""

    def __init__(self, outbox: Outbox, write: Templates) -> None:
        self._outbox = outbox
        self._write = write

    async def recent(self, *, limit: int) -> Sequence[SentEmail]:
        """Return the newest letters, newest first, but those whose link is gone."""
        posted = []
        for draft in await self._outbox.recent(limit=limit):
            with suppress(EmailWithoutLink):
                posted.append(SentEmail(draft.letter_id, draft.written_at, self._write(draft)))
        return posted


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounts:
    """Every desk of this process; they share one file with those of all others.

    mailbox   None: letters are not shown
    """

    signup: Signups
    exchange: Exchanges
    review: Reviews
    people: People
    keys: ApiKeys
    mailbox: ShownOutbox | None
    delivery: Delivery
    housekeeping: AccountMaintenance

    async def run(self) -> None:
        """Deliver letters and keep order, until cancelled; a bug in it is told, and it goes on."""
        while True:
            try:
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(self.delivery.run())
                    tasks.create_task(self.housekeeping.run())
            except* Exception:
                log.exception("looking after accounts failed")
            await asyncio.sleep(TROUBLE_S)


@asynccontextmanager
async def open_accounts(
    config: Config, *, root: bytes, origin: str, limits: Limits, clock: Clock
) -> AsyncIterator[Accounts]:
    """Build the desks.

    root      every secret is derived from it: the pepper of credit tokens
    origin    what the links in letters begin with
    Raises    UnusableStore
    """
    secrets, entropy = AccountSecrets.derive(root), os.urandom
    async with AsyncExitStack() as stack:
        file = AccountFile(config.data_dir / MONEY_FILE)
        stack.push_async_callback(file.close)
        hasher = Argon2Hasher()
        stack.callback(hasher.close)
        outbox, write = SqliteOutbox(file), Templates(secrets, origin=origin)
        lifetimes = _lifetimes(config.web)
        signup = Signups(SqliteSignupStore(file), secrets=secrets, clock=clock, entropy=entropy)
        keys = ApiKeys(store=SqliteApiKeyStore(file), secrets=secrets, clock=clock, entropy=entropy)
        yield Accounts(
            signup=signup,
            exchange=Exchanges(
                SqliteExchangeStore(file), secrets=secrets, clock=clock, entropy=entropy
            ),
            review=Reviews(SqliteReviewStore(file), clock=clock, entropy=entropy),
            people=People(
                people=SqlitePeopleStore(file),
                sessions=SqliteSessionStore(file),
                hasher=hasher,
                secrets=secrets,
                limits=limits,
                clock=clock,
                entropy=entropy,
                lifetimes=lifetimes,
                guesses=_guesses(config.web),
            ),
            keys=keys,
            mailbox=ShownOutbox(outbox, write) if config.mail.delivery == "page" else None,
            delivery=make_postman(config.mail, outbox=outbox, write=write, clock=clock),
            housekeeping=AccountMaintenance(
                keys=keys,
                signup=signup,
                archive=SqliteAccountArchive(file),
                lifetimes=lifetimes,
                clock=clock,
            ),
        )


def desks_of(config: AccountsConfig, accounts: Accounts) -> AccountParts:
    """Return what the API asks, as often as *config* allows."""
    return AccountParts(
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


def _guesses(web: WebConfig) -> LoginLimits:
    return LoginLimits(
        one=web.guesses_max, all=web.client_guesses_max, signups=web.sign_ups_per_hour_max
    )


def _lifetimes(web: WebConfig) -> Lifetimes:
    return Lifetimes(
        idle_ms=web.session_idle_minutes * MINUTE_MS, absolute_ms=web.session_hours_max * HOUR_MS
    )
