"""Accounts in one process: built as they are configured, and maintained while it runs.

always   e-mails are taken from the outbox and delivered
30 s     the uses of API keys are written down, and once an hour expired rows are deleted
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
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
from mintscope.edges.maintenance.account_maintenance import AccountMaintenance
from mintscope.edges.maintenance.passwords import Argon2Hasher
from mintscope.edges.web.parts import WebParts
from mintscope.shell.config.config import Config
from mintscope.shell.config.sections import AccountsConfig, WebConfig
from mintscope.shell.wiring.mail import ShownOutbox, Templates, make_delivery, make_mailbox
from mintscope.shell.wiring.stores import Money

TROUBLE_S: Final = 5.0

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounts:
    """What answers for accounts in this process; other processes share the database.

    mailbox   None: e-mails are not shown
    """

    signup: Signups
    exchange: Exchanges
    review: Reviews
    people: People
    keys: ApiKeys
    mailbox: ShownOutbox | None
    delivery: Delivery
    maintenance: AccountMaintenance

    def web_parts(self) -> WebParts:
        """Return what the pages use."""
        return WebParts(
            people=self.people,
            signup=self.signup,
            keys=self.keys,
            review=self.review,
            mailbox=self.mailbox,
        )

    async def run(self) -> None:
        """Deliver e-mails and maintain accounts until cancelled; a bug is logged, not raised."""
        while True:
            try:
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(self.delivery.run())
                    tasks.create_task(self.maintenance.run())
            except* Exception:
                log.exception("looking after accounts failed")
            await asyncio.sleep(TROUBLE_S)


@asynccontextmanager
async def open_accounts(
    config: Config, *, money: Money, origin: str, limits: Limits, clock: Clock
) -> AsyncIterator[Accounts]:
    """Build what answers for accounts.

    origin    what the links in e-mails begin with
    Raises    UnusableStore
    """
    store, hasher, lifetimes = money.accounts, Argon2Hasher(), _lifetimes(config.web)
    secrets = AccountSecrets.derive(money.pepper)
    outbox, write = Outbox(store), Templates(secrets, origin=origin)
    signup = Signups(store, secrets=secrets, clock=clock, entropy=os.urandom)
    keys = ApiKeys(store=store, secrets=secrets, clock=clock, entropy=os.urandom)
    try:
        yield Accounts(
            signup=signup,
            exchange=Exchanges(store, secrets=secrets, clock=clock, entropy=os.urandom),
            review=Reviews(store, clock=clock, entropy=os.urandom),
            people=People(
                store=store,
                hasher=hasher,
                limits=limits,
                lifetimes=lifetimes,
                guesses=_guesses(config.web),
                secrets=secrets,
                clock=clock,
                entropy=os.urandom,
            ),
            keys=keys,
            mailbox=make_mailbox(config.mail, outbox, write),
            delivery=make_delivery(config.mail, outbox=outbox, write=write, clock=clock),
            maintenance=AccountMaintenance(
                keys=keys, signups=signup, store=store, lifetimes=lifetimes, clock=clock
            ),
        )
    finally:
        hasher.close()


def account_parts(config: AccountsConfig, accounts: Accounts) -> AccountParts:
    """Return what the API uses, with the limits of *config*."""
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
