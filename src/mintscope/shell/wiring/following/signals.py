"""Signals, looked at by one api process of the installation and sent by all of them."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from mintscope.base.clock import Clock
from mintscope.base.limits import Limits
from mintscope.base.time import SECOND_MS
from mintscope.core.accounts.secrets import AccountSecrets
from mintscope.core.accounts.signals.deliveries import Deliveries
from mintscope.core.accounts.signals.evaluation import Evaluation
from mintscope.core.accounts.signals.queue import WebhookQueue
from mintscope.core.accounts.signals.signals import SignalBounds, Signals
from mintscope.core.accounts.signals.writing import ReadSymbols, SignalWriter, no_symbols
from mintscope.core.accounts.store import AccountStore
from mintscope.core.market.log import LogReader
from mintscope.core.market.signals.tracks import Tracks
from mintscope.edges.api.check import Check
from mintscope.edges.follow.watcher import Watcher
from mintscope.edges.webhooks.post import WebhookPost
from mintscope.edges.webhooks.receivers import Receivers
from mintscope.edges.webhooks.sender import WebhookSender
from mintscope.shell.config.signals import SignalsConfig
from mintscope.shell.wiring.maintenance import running

HOLDER_BYTES: Final = 8
NOTING_MS: Final = 5 * SECOND_MS  # for what became of a webhook to be written down


def make_signals(
    config: SignalsConfig,
    store: AccountStore,
    queue: WebhookQueue | None,
    secrets: AccountSecrets,
    clock: Clock,
) -> Signals:
    """Return who keeps signals; *queue*: None where no webhooks are sent."""
    bounds = SignalBounds(
        per_user_max=config.per_account_max,
        of_all_max=config.of_all_max,
        mints_max=config.mints_max,
        emails_day_max=config.emails_per_day_max,
        emails_of_alert_max=config.emails_per_alert_max,
        allows_loopback=config.webhook_loopback,
    )
    return Signals(
        store=store,
        queue=queue,
        secrets=secrets,
        clock=clock,
        entropy=os.urandom,
        bounds=bounds,
    )


@asynccontextmanager
async def signalling(  # noqa: PLR0913 - one argument for each part
    config: SignalsConfig,
    *,
    reader: LogReader,
    store: AccountStore,
    queue: WebhookQueue,
    pepper: bytes,
    limits: Limits,
    clock: Clock,
    symbols: ReadSymbols = no_symbols,
) -> AsyncIterator[list[Check]]:
    """Evaluate signals and send their webhooks during the block; yield the check of signals."""
    if not config.enabled:
        yield []
        return
    watcher = make_watcher(config, reader, store, clock, symbols)
    receivers = Receivers(limits, clock, per_minute=config.webhooks_per_minute_max)
    deliveries = make_deliveries(config, store, queue, pepper, clock)
    sender = make_sender(config, deliveries, receivers, clock)
    async with running(watcher.run, "signals"), running(sender.run, "webhooks"):
        yield [Check("signals", watcher.expect_looking, is_vital=False)]


def make_watcher(
    config: SignalsConfig,
    reader: LogReader,
    store: AccountStore,
    clock: Clock,
    symbols: ReadSymbols = no_symbols,
) -> Watcher:
    """Return what looks at signals; *symbols* returns what tokens are called."""
    return Watcher(
        reader=reader,
        writer=SignalWriter(
            store=store,
            clock=clock,
            holder=os.urandom(HOLDER_BYTES),
            emails_day_max=config.emails_per_day_max,
            emails_of_alert_max=config.emails_per_alert_max,
            email_pause_ms=config.email_pause_s * SECOND_MS,
            symbols=symbols,
            lease_ms=int(config.takeover_s * SECOND_MS),
        ),
        evaluation=Evaluation(
            tracks=Tracks(config.mints_max), firings_hour_max=config.firings_per_hour_max
        ),
        clock=clock,
        wait=partial(asyncio.sleep, config.poll_interval_ms / 1000),
    )


def make_deliveries(
    config: SignalsConfig, store: AccountStore, queue: WebhookQueue, pepper: bytes, clock: Clock
) -> Deliveries:
    """Return what leases webhooks and notes what came of them."""
    return Deliveries(
        store=store,
        queue=queue,
        secrets=AccountSecrets.derive(pepper),
        clock=clock,
        retry_ms_max=config.webhook_retry_s * SECOND_MS,
        lease_ms=int(config.webhook_timeout_s * SECOND_MS) + NOTING_MS,
        waiting_max=config.webhooks_waiting_max,
        kept_max=config.firings_kept_max,
    )


def make_sender(
    config: SignalsConfig, deliveries: Deliveries, receivers: Receivers, clock: Clock
) -> WebhookSender:
    """Return what sends webhooks."""
    post = WebhookPost(
        timeout_s=config.webhook_timeout_s,
        allows_loopback=config.webhook_loopback,
        admit=receivers.admit_address,
    )
    return WebhookSender(deliveries=deliveries, post=post, receivers=receivers, clock=clock)
