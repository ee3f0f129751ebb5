"""Firings and webhooks are in two files: with a new money file, no firing number is reused."""

from pathlib import Path

import pytest
from pydantic import SecretStr

from mintscope.accounts.email_address import EmailAddress
from mintscope.accounts.factor_rows import NewUser, UserKind
from mintscope.accounts.rows import AccountRows
from mintscope.accounts.secrets import AccountSecrets
from mintscope.alerts.alert import FiringId, FiringKind, NewFiring, SignalId
from mintscope.alerts.conditions import Direction
from mintscope.alerts.deliveries import Deliveries
from mintscope.alerts.queue_store import NewWebhook
from mintscope.app.config.config import CreditsConfig
from mintscope.app.config.groups import Config
from mintscope.app.stores.folder import WEBHOOKS_FILE
from mintscope.app.stores.money import Money
from mintscope.app.stores.stores import open_money
from mintscope.kit.clock import SystemClock
from mintscope.kit.errors import UnusableStore
from mintscope.kit.primitives import Slot, UnixMs, UnixS
from mintscope.kit.time import DAY_MS
from support.scenes.people.takeover import RULE
from support.scenes.stores import PEPPER

CLOCK = SystemClock()
TAKEN = FiringId(5_000)


def fire(rows: AccountRows) -> FiringId:
    now = CLOCK.now()
    new = NewUser(
        kind=UserKind.AGENT, username="a", email=EmailAddress("a@example.org"), created_at=now
    )
    signal_id = rows.signals.insert(rows.users.insert(new), RULE, bytes(16), now)
    firing = NewFiring(
        signal_id=signal_id,
        kind=FiringKind.FIRED,
        seq=1,
        slot=Slot(1),
        time=UnixS(now // 1_000),
        value=1.0,
        direction=Direction.UP,
        reference=1.0,
        fired_at=now,
    )
    return rows.firings.insert(firing, now)


def deliveries_of(money: Money) -> Deliveries:
    return Deliveries(
        store=money.accounts,
        queue=money.webhooks,
        secrets=AccountSecrets.derive(PEPPER),
        clock=CLOCK,
        retry_ms_max=DAY_MS,
    )


def config_of(folder: Path) -> Config:
    return Config(data_dir=folder, credits=CreditsConfig(pepper=SecretStr(PEPPER.hex())))


async def take_in(folder: Path) -> None:
    """Put the firing TAKEN into the queue of webhooks, as from a `money.sqlite` that was lost."""
    async with open_money(config_of(folder), CLOCK) as money:
        waiting = [NewWebhook(TAKEN, SignalId(1), UnixMs(CLOCK.now()))]
        await money.webhooks.transact(lambda rows: rows.take_in(TAKEN, waiting, CLOCK.now()))


async def test_a_firing_of_a_new_money_file_is_sent_once_beside_an_old_queue(
    tmp_path: Path,
) -> None:
    await take_in(tmp_path)
    for number in range(2):
        async with open_money(config_of(tmp_path), CLOCK) as money:
            deliveries = deliveries_of(money)
            if number == 0:
                fired = await money.accounts.transact(fire)
            await deliveries.take_in()
            turns = await deliveries.lease([])
            sent = [each.firing.firing_id for turn in turns for each in turn.webhooks]
            assert fired > TAKEN
            assert sent == ([fired] if number == 0 else []), "once, not at each start"
            reported = await money.webhooks.read(lambda queue: queue.outcomes([TAKEN]))
            assert reported[TAKEN].delivered_at is None


async def test_the_error_about_an_unreadable_queue_names_its_file(tmp_path: Path) -> None:
    (tmp_path / WEBHOOKS_FILE).write_bytes(b"no database" * 999)
    with pytest.raises(UnusableStore, match=WEBHOOKS_FILE):
        async with open_money(config_of(tmp_path), CLOCK) as money:
            await money.webhooks.read(lambda queue: queue.length())
