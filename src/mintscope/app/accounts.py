"""Builds the account services of one process, and does their regular work.

always         delivers the e-mails of the outbox
every 30 s     stores the times at which API keys were last used; adds up the entries of the journal
               of credits that are older than five minutes; notifies accounts whose spending of the
               day has reached their spend alert
every hour     deletes expired sessions, expired proofs of e-mail addresses without an account,
               applications not confirmed within three days, sign-ins whose second step did not
               come in time, firings of an alert beyond `firings_kept_max`, and usage by key and
               endpoint older than `usage_kept_days`; after 30 days, e-mails that were sent or given
               up, proofs that were used or have expired, firings, and records of requests with an
               Idempotency-Key
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import (
    asynccontextmanager,
    contextmanager,
    nullcontext,
    suppress,
)
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, TypeAlias, TypedDict
from urllib.parse import urlsplit

import structlog

from mintscope.accounts.changes import AccountDeletion, AddressChanges
from mintscope.accounts.factor_rows import WAIT_MS, passkeys_at
from mintscope.accounts.factors import Factors
from mintscope.accounts.keys.keys import ApiKeys
from mintscope.accounts.mail import delivery
from mintscope.accounts.mail.email import Draft, Email
from mintscope.accounts.mail.outbox import Outbox
from mintscope.accounts.mail.templates import EmailWithoutLink, compose
from mintscope.accounts.people import People
from mintscope.accounts.rows import AccountRows, AccountStore
from mintscope.accounts.second_step import SecondStep
from mintscope.accounts.secrets import AccountSecrets
from mintscope.accounts.session import Lifetimes
from mintscope.accounts.signups.reviews import Reviews
from mintscope.accounts.signups.signups import Exchanges, Signups
from mintscope.accounts.user import Hasher, LoginLimits, commonest_passwords
from mintscope.accounts.wallets.credits import AccountCredits, Wallets, notify_of_spending
from mintscope.alerts.alert import SignalId
from mintscope.alerts.alerts import TESTS, ReadSymbols, no_symbols
from mintscope.alerts.queue_store import SqlWebhookQueue
from mintscope.app.config.groups import Config
from mintscope.app.config.values import is_loopback
from mintscope.app.following import make_signals
from mintscope.app.mail import NAME, transport_of
from mintscope.app.stores.passwords import open_hasher
from mintscope.app.web_site import WebParts
from mintscope.kit.clock import Clock
from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.http.rate_limit import WRITES, WRITES_OF_ALL, WriteBudget
from mintscope.kit.limits import Limits
from mintscope.kit.primitives import UnixMs
from mintscope.kit.time import DAY_MS, HOUR_MS, HOUR_S, MINUTE_MS
from mintscope.site.routes import SentEmail
from mintscope.watchlists.watchlists import Watchlists

FLUSH_S: Final = 30.0
START_S: Final = 10.0  # so that other work at the start is done first
SWEEP_S: Final = float(HOUR_S)
KEEP_MS: Final = 30 * DAY_MS
FOLDED_AFTER_MS: Final = 5 * MINUTE_MS
FOLDED_ENTRIES_MAX: Final = 20_000  # per kind of sum and transaction; debits wait until it ends
FOLDS_MAX: Final = 20
# The number is high because a long journal is added up after an upgrade: up to eight million
# entries a minute, with pauses for debits.
DAY_FOLDS_MAX: Final = 200
FOLD_PAUSE_S: Final = 0.02
FORGOTTEN_AT_ONCE: Final = 2_000  # rows of a table per transaction, which takes about 10 ms
FORGETS_MAX: Final = 500  # transactions per hour; the remaining rows wait for the next hour
TRIMMED_AT_ONCE: Final = 100  # alerts per transaction, which takes about 10 ms


@dataclass(kw_only=True, eq=False, repr=False)
class AccountMaintenance:
    """Maintains accounts: stores last uses of API keys, adds up spends by day, deletes old rows."""

    keys: ApiKeys
    signups: Signups
    store: AccountStore
    lifetimes: Lifetimes
    clock: Clock
    firings_kept_max: int = 1_000
    usage_kept_days: int = 400
    _swept_at_s: float | None = field(default=None, init=False)

    async def run(self) -> None:
        """Run regular work until cancelled; at the end, store the last use of each API key."""
        try:
            await asyncio.sleep(START_S)
            while True:
                await self.round()
                await asyncio.sleep(FLUSH_S)
        finally:
            await self._flush()

    async def round(self) -> None:
        """Do the work that is due now; failed work is repeated when it is due again."""
        await self._flush()
        await self._fold_days()
        now_s = self.clock.monotonic_s()
        if self._swept_at_s is None or now_s - self._swept_at_s >= SWEEP_S:
            # Before the work: otherwise an unexpected error would repeat all of it at each round.
            self._swept_at_s = now_s
            await self._sweep()

    async def _flush(self) -> None:
        with _logged():
            await self.keys.flush()

    async def _fold_days(self) -> None:
        before = UnixMs(self.clock.now() - FOLDED_AFTER_MS)
        with _logged():
            for _ in range(DAY_FOLDS_MAX):
                if not await self.store.transact(
                    lambda rows: rows.credits.fold_days(before, FOLDED_ENTRIES_MAX)
                ):
                    break
                await asyncio.sleep(FOLD_PAUSE_S)
            now = self.clock.now()
            for _ in range(FOLDS_MAX):
                if not await self.store.transact(lambda rows: notify_of_spending(rows, now)):
                    break

    async def _sweep(self) -> None:
        """Delete old rows; if one step fails, the others still run."""
        now = self.clock.now()
        with _logged():
            await self.signups.forget_lapsed()
        with _logged():
            await self.store.transact(lambda rows: _purge(rows, self.lifetimes, now))
        with _logged():
            await self._forget(now)
        with _logged():
            last: SignalId | None = SignalId(0)
            while last is not None:
                last = await self._trim(last)

    async def _forget(self, now: UnixMs) -> None:
        """Delete expired rows, in at most FORGETS_MAX short transactions.

        Each transaction is short because the debits of requests have to wait for it.
        """
        before = UnixMs(now - KEEP_MS)
        # Today is one of the days that are kept.
        first_day = now // DAY_MS - self.usage_kept_days + 1
        for _ in range(FORGETS_MAX):
            if not await self.store.transact(lambda rows: _forget(rows, before, now, first_day)):
                break

    async def _trim(self, after: SignalId) -> SignalId | None:
        return await self.store.transact(
            lambda rows: rows.firings.trim(after, TRIMMED_AT_ONCE, self.firings_kept_max)
        )


@contextmanager
def _logged() -> Iterator[None]:
    try:
        yield
    except ServiceUnavailable as trouble:
        log.warning("maintenance of accounts failed", reason=str(trouble))


def _purge(rows: AccountRows, lifetimes: Lifetimes, now: UnixMs) -> None:
    """Delete expired sessions, and unfinished sign-ins that expired."""
    idle_since = UnixMs(now - lifetimes.idle_ms)
    begun_before = UnixMs(now - lifetimes.absolute_ms)
    rows.sessions.purge(idle_since=idle_since, begun_before=begun_before)
    rows.sign_ins.purge(UnixMs(now - WAIT_MS))


def _forget(rows: AccountRows, before: UnixMs, now: UnixMs, first_day: int) -> bool:
    """Delete some old e-mails, proofs of e-mail addresses, firings, records of requests and usage.

    Return whether more may remain.
    """
    # A list, because all deletions must run: `any` would stop a generator at the first True.
    return any(
        [
            rows.emails.purge(before, now, FORGOTTEN_AT_ONCE),
            rows.firings.purge(before, FORGOTTEN_AT_ONCE),
            rows.made.purge(before, FORGOTTEN_AT_ONCE),
            rows.credits.forget_usage(first_day, FORGOTTEN_AT_ONCE),
        ]
    )


Compose: TypeAlias = Callable[[Draft], Email]

log = structlog.get_logger()


class ShownOutbox:
    """The outbox of a demo, for the mailbox page; implements `site.routes.Mailbox`."""

    def __init__(self, outbox: Outbox, write: Compose) -> None:
        self._outbox = outbox
        self._write = write

    async def recent(self, *, limit: int) -> Sequence[SentEmail]:
        """Return up to *limit* e-mails, newest first.

        An e-mail is left out if the proof that its link contains was deleted.
        """
        posted = []
        for draft in await self._outbox.recent(limit=limit):
            with suppress(EmailWithoutLink):
                posted.append(SentEmail(draft.email_id, draft.written_at, self._write(draft)))
        return posted


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounts(WebParts):
    """The account services of this process; if *mailbox* is None, no page shows e-mails."""

    exchange: Exchanges
    delivery: delivery.Delivery
    maintenance: AccountMaintenance
    writes: WriteBudget

    async def run(self) -> None:
        """Deliver e-mails and maintain accounts until cancelled."""
        # Load the list of common passwords before the first form needs it.
        await asyncio.to_thread(commonest_passwords)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.delivery.run())
            tasks.create_task(self.maintenance.run())


class _Common(TypedDict):
    """The arguments with which most account services are created."""

    store: AccountStore
    secrets: AccountSecrets
    clock: Clock
    entropy: Callable[[int], bytes]


@asynccontextmanager
async def open_accounts(  # noqa: PLR0913 - one argument for each thing that can be replaced
    config: Config,
    *,
    store: AccountStore,
    pepper: bytes,
    origin: str,
    limits: Limits,
    clock: Clock,
    hasher: Hasher | None = None,  # None: one is opened, and closed at the end of the block
    queue: SqlWebhookQueue | None = None,  # None: no webhooks are sent
    symbols: ReadSymbols = no_symbols,  # for e-mails that test an alert
) -> AsyncIterator[Accounts]:
    """Yield the account services; links in e-mails, and texts to sign, contain *origin*."""
    secrets = AccountSecrets.derive(pepper)
    common = _Common(store=store, secrets=secrets, clock=clock, entropy=os.urandom)
    web = config.web
    changes = config.accounts
    lifetimes = Lifetimes(
        idle_ms=web.session_idle_minutes * MINUTE_MS, absolute_ms=web.session_hours_max * HOUR_MS
    )
    guesses = LoginLimits(
        one=web.guesses_max, all=web.client_guesses_max, signups=web.sign_ups_per_hour_max
    )
    outbox = Outbox(store)
    write = partial(compose, origin=origin, secrets=secrets, name=NAME)
    verifier = passkeys_at(_origins(origin), NAME)
    signup, keys = Signups(**common), ApiKeys(**common)
    with open_hasher() if hasher is None else nullcontext(hasher) as hashing:
        yield Accounts(
            signup=signup,
            exchange=Exchanges(**common),
            review=Reviews(store, clock=clock, entropy=os.urandom),
            people=People(
                hasher=hashing, limits=limits, lifetimes=lifetimes, guesses=guesses, **common
            ),
            factors=Factors(verifier=verifier, limits=limits, **common),
            second_step=SecondStep(verifier=verifier, limits=limits, guesses=guesses, **common),
            addresses=AddressChanges(limits=limits, guesses=guesses, **common),
            deletion=AccountDeletion(store=store, clock=clock),
            keys=keys,
            credits=AccountCredits(**common),
            wallets=Wallets(origin=origin, **common),
            watchlists=Watchlists(store=store, secrets=secrets, clock=clock),
            signals=make_signals(config.signals, store, queue, secrets, clock, symbols),
            signal_tests=limits.limiter(TESTS),
            mailbox=ShownOutbox(outbox, write) if config.mail.delivery == "page" else None,
            delivery=delivery.Delivery(
                outbox=outbox,
                transport=transport_of(config.mail, clock),
                compose=write,
                clock=clock,
                per_hour_max=config.mail.per_hour_max,
            ),
            maintenance=AccountMaintenance(
                keys=keys,
                signups=signup,
                store=store,
                lifetimes=lifetimes,
                clock=clock,
                firings_kept_max=config.signals.firings_kept_max,
                usage_kept_days=config.accounts.usage_kept_days,
            ),
            # Pages and requests with API keys share this budget.
            writes=WriteBudget(
                limits,
                of_account=replace(WRITES, count=changes.writes_per_day_max),
                of_all=replace(WRITES_OF_ALL, count=changes.writes_per_minute_max),
            ),
        )


def _origins(origin: str) -> list[str]:
    """Return the origins for passkeys: *origin*, and if it is loopback, also that of localhost."""
    parts = urlsplit(origin)
    if not is_loopback(parts.hostname or ""):
        return [origin]
    port = "" if parts.port is None else f":{parts.port}"
    # A passkey belongs to a host name; an IP address is not accepted.
    return [origin, f"{parts.scheme}://localhost{port}"]
