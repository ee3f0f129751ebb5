"""E-mails about firings: when they are sent, their text, and how to stop them."""

from dataclasses import replace
from email.message import EmailMessage
from typing import Any, Final

import pytest

from mintscope.accounts.keys.scope import Scope
from mintscope.accounts.mail.delivery import message_of
from mintscope.accounts.mail.email import EmailKind
from mintscope.accounts.mail.templates import compose
from mintscope.alerts.alert import SignalId
from mintscope.alerts.alerts import AlertWriter
from mintscope.alerts.conditions import Tracks
from mintscope.alerts.emails import EmailBounds
from mintscope.alerts.evaluation import Evaluation
from mintscope.alerts.evaluator import AlertEvaluator
from mintscope.kit.primitives import Mint
from mintscope.kit.time import HOUR_MS
from mintscope.market.follow.tailer import look_again_soon
from mintscope.market.log import PricedSwap
from mintscope.solana.blocks import WSOL
from support.scenes.people.agent import Agent
from support.scenes.service import NOW, Service, bearer

ORIGIN: Final = "https://mintscope.example"
ASKED: Final = {
    "name": "SOL crosses",
    "mint": WSOL,
    "field": "price.usd",
    "kind": "crosses",
    "level": 161.5,
    "leastConfidence": "low",
    "email": True,
}


@pytest.fixture
async def key(service: Service) -> str:
    return await Agent(service).key(Scope.SIGNALS_WRITE)


def watcher_of(service: Service, **bounds: int) -> AlertEvaluator:
    async def symbols(mints: Any) -> dict[Mint, str]:
        return dict.fromkeys(mints, "SOL")

    writer = AlertWriter(
        store=service.accounts.store,
        clock=service.clock,
        holder=b"here",
        symbols=symbols,
        bounds=EmailBounds(**bounds),
    )
    return AlertEvaluator(
        reader=service.log,
        writer=writer,
        evaluation=Evaluation(tracks=Tracks(4)),
        clock=service.clock,
        wait=look_again_soon,
    )


def trade(service: Service, usd: float) -> None:
    tip = service.log.tip_at(service.log.seq)
    slot, time = (tip.slot or 0) + 1, tip.time or 0
    traded = PricedSwap(Mint(WSOL), 0, 0, -1, 0, True, 10**6, usd, usd / 100)  # noqa: FBT003
    service.log.append(slot, time, traded)


async def make(service: Service, key: str, **changes: Any) -> str:
    made = await service.client.post("/v1/signals", headers=bearer(key), json=ASKED | changes)
    assert made.status_code == 201, made.text
    return f"/v1/signals/{made.json()['data']['signalId']}"


async def get(service: Service, key: str, path: str) -> Any:
    return (await service.client.get(path, headers=bearer(key))).json()["data"]


async def prices(service: Service, watcher: AlertEvaluator, *usd: float) -> None:
    for each in usd:
        trade(service, each)
        await watcher.round()


async def email_of(service: Service) -> EmailMessage:
    (draft,) = [
        each
        for each in await service.accounts.store.read(lambda rows: rows.emails.newest(99))
        if each.kind is EmailKind.SIGNAL_FIRED
    ]
    written = compose(draft, origin=ORIGIN, secrets=service.accounts.secrets, name="mintscope")
    return message_of(written, sender="alerts@mintscope.example", name="mintscope", at=NOW)


async def test_an_email_describes_the_firing_and_links_to_pause_the_alert(
    service: Service, key: str
) -> None:
    watcher = watcher_of(service)
    path = await make(service, key, kind="below", fires="once", message="Sell half.")
    await watcher.round()
    await prices(service, watcher, 162.0, 160.49784259583407, 162.0, 160.0)
    message = await email_of(service)
    number = path.rpartition("/")[2]
    link = str(message["List-Unsubscribe"]).strip("<>")

    assert message["Subject"] == "SOL crosses: SOL fell below $161.50 (now $160.50)"
    assert message["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    assert link.startswith(f"{ORIGIN}/pause-alert/{number}.")
    text = message.get_content()
    for part in ("Sell half.", f"{ORIGIN}/token/{WSOL}", f"{ORIGIN}/alerts/{number}", link):
        assert part in text
    (event,) = (await get(service, key, f"{path}/events"))["events"]
    assert event["email"] == {"state": "waiting", "sentAt": None, "reason": None}


async def test_a_test_alert_contains_the_symbol(service: Service, key: str) -> None:
    async def symbols(mints: Any) -> dict[Mint, str]:
        return dict.fromkeys(mints, "SOL")

    number = SignalId(int((await make(service, key)).rpartition("/")[2]))
    alerts = replace(service.accounts.built.signals, symbols=symbols)
    owner = await service.accounts.store.read(lambda rows: rows.signals.get(number))
    assert owner is not None
    assert await alerts.test(owner.user_id, number) is not None

    assert (await email_of(service))["Subject"] == "SOL crosses: this is a test for SOL"
    assert await alerts.test(owner.user_id, SignalId(9)) is None


async def test_an_alert_that_fires_once_fires_again_after_it_is_resumed(
    service: Service, key: str
) -> None:
    watcher = watcher_of(service)
    path = await make(service, key, fires="once")
    await watcher.round()
    await prices(service, watcher, 162.0, 160.0, 162.0, 160.0)
    ended = await get(service, key, path)
    await service.client.patch(path, headers=bearer(key), json={"isActive": True})
    await prices(service, watcher, 162.0, 160.0, 162.0)
    again = await get(service, key, path)

    assert (ended["isActive"], ended["endedAt"]) == (False, NOW // 1000)
    assert (again["isActive"], again["fires"]) == (False, "once")
    assert len((await get(service, key, f"{path}/events"))["events"]) == 2


async def test_an_hourly_alert_fires_at_most_once_an_hour(service: Service, key: str) -> None:
    watcher = watcher_of(service)
    path = await make(service, key, fires="hourly", email=False)
    await watcher.round()
    await prices(service, watcher, 162.0, 160.0, 162.0, 160.0)
    first = len((await get(service, key, f"{path}/events"))["events"])
    service.clock.advance(HOUR_MS)
    await prices(service, watcher, 162.0, 160.0)

    assert first == 1
    assert len((await get(service, key, f"{path}/events"))["events"]) == 2


async def test_an_alert_ends_when_it_expires(service: Service, key: str) -> None:
    watcher = watcher_of(service)
    expires_at = NOW // 1000 + 60
    path = await make(service, key, expiresAt=expires_at)
    await watcher.round()
    await prices(service, watcher, 160.0)
    service.clock.advance(60_000)
    await prices(service, watcher, 162.0, 160.0)
    line = await get(service, key, path)

    assert (line["isActive"], line["endedAt"]) == (False, NOW // 1000 + 60)
    assert (await get(service, key, f"{path}/events"))["events"] == []


async def test_an_alert_fires_if_the_price_crosses_above_its_average(
    service: Service, key: str
) -> None:
    """The price is above its one-minute EMA 9 after each rise, and below it after each fall."""
    watcher = watcher_of(service)
    crossing = ASKED | {
        "kind": "crosses_field",
        "comparedWith": "indicators.m1.ema9",
        "direction": "up",
        "email": False,
    }
    del crossing["level"]
    made = await service.client.post("/v1/signals", headers=bearer(key), json=crossing)
    assert made.status_code == 201, made.text
    path = f"/v1/signals/{made.json()['data']['signalId']}"
    wrong = crossing | {"comparedWith": "indicators.m1.rsi"}
    refused = await service.client.post("/v1/signals", headers=bearer(key), json=wrong)
    await watcher.round()
    await prices(service, watcher, 1.0, 900.0, 1.0, 950.0)
    events = (await get(service, key, f"{path}/events"))["events"]

    assert refused.status_code == 400
    assert "a number in the unit of price.usd" in refused.text
    assert [each["value"] for each in events] == [950.0, 900.0]
    assert all(each["value"] > each["reference"] > 1.0 for each in events)


async def test_firings_during_the_pause_are_in_the_next_email(service: Service, key: str) -> None:
    watcher = watcher_of(service, pause_ms=60_000)
    path = await make(service, key, fires="each")
    await watcher.round()
    await prices(service, watcher, 162.0, 160.0, 162.0, 160.0)
    events = (await get(service, key, f"{path}/events"))["events"]
    waiting = [each["email"]["state"] for each in events]
    service.clock.advance(60_000)
    await watcher.round()
    emails = await service.accounts.store.read(lambda rows: rows.emails.newest(99))
    subjects = [each.facts["title"] for each in emails if each.kind is EmailKind.SIGNAL_FIRED]

    assert len(waiting) >= 3
    assert set(waiting) == {"waiting"}
    assert len(subjects) == 2
    assert subjects[0].endswith(f", {len(waiting) - 1} times")
