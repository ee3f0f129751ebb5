"""/v1/signals: alerts of an account."""

import hmac
from base64 import b64decode
from typing import Any, Final

import httpx
import pytest

from mintscope.accounts.keys.scope import Scope
from mintscope.accounts.mail.email import EmailKind
from mintscope.alerts.alerts import AlertWriter
from mintscope.alerts.conditions import Tracks
from mintscope.alerts.deliveries import Attempt, Deliveries, Ended
from mintscope.alerts.evaluation import Evaluation
from mintscope.alerts.evaluator import AlertEvaluator
from mintscope.kit.clock import ManualClock
from mintscope.kit.primitives import Mint
from mintscope.kit.time import DAY_MS
from mintscope.market.follow.tailer import look_again_soon
from mintscope.market.log import PricedSwap
from mintscope.solana.blocks import WSOL
from support.scenes.live_market import trade
from support.scenes.people.agent import Agent
from support.scenes.service import NOW, Service, bearer, refusal
from support.scenes.standings import packed_pool

SIGNALS: Final = "/v1/signals"
ASKED: Final = {"name": "up", "mint": WSOL, "field": "price.usd", "kind": "above", "level": 9.5}
MOVE: Final = {
    "name": "move",
    "mint": WSOL,
    "field": "price.sol",
    "kind": "changes_by",
    "percent": 5,
    "windowS": 3600,
    "leastConfidence": "low",
}
IDEMPOTENT: Final = {"idempotency-key": "a-key-of-some-length"}


@pytest.fixture
async def key(service: Service) -> str:
    return await Agent(service).key(Scope.SIGNALS_WRITE)


async def call(
    service: Service, key: str, method: str, path: str, body: Any = None, **headers: str
) -> httpx.Response:
    sent: Any = {} if body is None else {"json": body}
    return await service.client.request(method, path, headers=bearer(key) | headers, **sent)


async def make(service: Service, key: str, **changes: Any) -> dict[str, Any]:
    return await make_as(service, key, ASKED | changes)


async def make_as(service: Service, key: str, asked: dict[str, Any]) -> dict[str, Any]:
    response = await call(service, key, "POST", SIGNALS, asked)
    assert response.status_code == 201, response.text
    made: dict[str, Any] = response.json()["data"]
    return made


async def test_an_alert_is_created_read_changed_and_deleted(service: Service, key: str) -> None:
    assert (await call(service, key, "GET", SIGNALS)).json()["data"] == {"signals": []}
    made = await make(service, key)
    secret = made.pop("webhookSecret")
    assert len(b64decode(secret.removeprefix("whsec_"))) == 32
    path = f"{SIGNALS}/{made['signalId']}"
    expected = ASKED | {
        "signalId": made["signalId"],
        "margin": 0.0,
        "percent": None,
        "windowS": None,
        "candles": "all",
        "leastConfidence": "medium",
        "webhookUrl": None,
        "email": False,
        "telegram": False,
        "fires": "each",
        "comparedWith": None,
        "direction": None,
        "message": "",
        "expiresAt": None,
        "endedAt": None,
        "isActive": True,
        "createdAt": NOW // 1000,
        "firedAt": None,
        "webhookDisabledAt": None,
    }
    assert made == expected
    assert (await call(service, key, "GET", path)).json()["data"] == expected
    assert (await call(service, key, "GET", SIGNALS)).json()["data"] == {"signals": [expected]}

    changes = {"level": 12.0, "margin": 0.5, "email": True, "isActive": False, "name": " new "}
    changed = (await call(service, key, "PATCH", path, changes)).json()["data"]
    assert changed == expected | changes | {"name": "new"}
    url = "https://example.org/hook"
    pointed = (await call(service, key, "PATCH", path, {"webhookUrl": url})).json()["data"]
    assert pointed == changed | {"webhookUrl": url}
    for candles in ("closed", "all"):
        answer = await call(service, key, "PATCH", path, {"candles": candles})
        assert answer.json()["data"] == pointed | {"candles": candles}
    unpointed = await call(service, key, "PATCH", path, {"webhookUrl": None})
    assert unpointed.json()["data"] == changed

    assert (await call(service, key, "DELETE", path)).json()["data"] == {"signals": []}
    for method, end in (("GET", ""), ("DELETE", ""), ("GET", "/events"), ("POST", "/test")):
        assert refusal(await call(service, key, method, f"{path}{end}")) == (404, "NOT_FOUND")


async def test_an_alert_may_be_limited_to_closed_candles(service: Service, key: str) -> None:
    made = await make(service, key, candles="closed")
    kept = await call(service, key, "GET", f"{SIGNALS}/{made['signalId']}")
    assert made["candles"] == kept.json()["data"]["candles"] == "closed"
    wrong = await call(service, key, "POST", SIGNALS, ASKED | {"candles": "open"})
    assert refusal(wrong) == (400, "BAD_REQUEST")


async def test_an_alert_about_a_move_has_percent_and_window_but_no_level(
    service: Service, key: str
) -> None:
    made = (await call(service, key, "POST", SIGNALS, MOVE)).json()["data"]
    assert {name: made[name] for name in ("level", "margin", "percent", "windowS")} == {
        "level": None,
        "margin": None,
        "percent": 5.0,
        "windowS": 3600,
    }


FLAWS: Final[list[dict[str, Any]]] = [
    {"name": " "},
    {"name": "a\nb"},
    {"name": "x" * 65},
    {"field": "price"},
    {"field": "dataSpan.to"},
    {"kind": "near"},
    {"level": None},
    {"level": "9"},
    {"level": True},
    {"margin": -1},
    {"level": -1},
    {"field": "indicators.h1.rsi", "level": 170},
    {"field": "indicators.h1.rsi", "kind": "crosses", "level": 70, "margin": 31},
    {"expiresAt": NOW // 1000},
    {"percent": 5},
    {"windowS": 60},
    {"kind": "changes_by", "level": None},
    {"kind": "changes_by", "percent": 5, "windowS": 3600},
    MOVE | {"percent": 0},
    MOVE | {"windowS": 61},
    MOVE | {"windowS": 86_460},
    {"webhookUrl": "http://example.org"},
    {"webhookUrl": "http://127.0.0.1:8000/"},
    {"webhookUrl": "https://127.0.0.1/"},
    {"webhookUrl": "https://localhost:8443/"},
    {"webhookUrl": "https://10.1.2.3/"},
    {"webhookUrl": "https://169.254.169.254/latest"},
    {"webhookUrl": "https://[::1]/"},
    {"webhookUrl": "https://"},
    {"webhookUrl": "https://user:pass@example.org/"},
    {"webhookUrl": "https://example.org/#a"},
    {"webhookUrl": "https://example.org:22/"},
    {"webhookUrl": "https://example.org/ a"},
    {"webhookUrl": "https://ex\u00e4mple.org/"},
    {"webhookUrl": "https://[::1/"},
    {"webhookUrl": "https://example.org/" + "x" * 500},
    {"webhookUrl": 7},
    {"unknown": 1},
]


async def test_an_invalid_alert_is_refused(service: Service, key: str) -> None:
    for flaw in FLAWS:
        response = await call(service, key, "POST", SIGNALS, ASKED | flaw)
        assert refusal(response) == (400, "BAD_REQUEST"), flaw
    assert (await call(service, key, "GET", SIGNALS)).json()["data"] == {"signals": []}


async def test_an_invalid_change_of_an_alert_is_refused(service: Service, key: str) -> None:
    path = f"{SIGNALS}/{(await make(service, key))['signalId']}"
    for flaw in ({"percent": 5}, {"margin": -1}, {"kind": "below"}, {"webhookUrl": "x"}):
        assert refusal(await call(service, key, "PATCH", path, flaw)) == (400, "BAD_REQUEST")
    wrong = await call(service, key, "POST", SIGNALS, ASKED | {"mint": "x"})
    assert refusal(wrong) == (400, "INVALID_TOKEN_ADDRESS")


async def test_an_alert_about_two_numbers_takes_no_level_percent_or_window(
    service: Service, key: str
) -> None:
    crossing = {"kind": "crosses_field", "comparedWith": "indicators.h1.ema200", "level": None}
    path = f"{SIGNALS}/{(await make(service, key, **crossing))['signalId']}"
    kept = "SELECT level, revision FROM signal"
    before = service.accounts.rows(kept)
    for flaw in ({"level": 5}, {"level": -0.5}, {"percent": 5}, {"windowS": 60}):
        assert refusal(await call(service, key, "PATCH", path, flaw)) == (400, "BAD_REQUEST"), flaw
    refused = await call(service, key, "PATCH", path, {"level": 5})

    assert service.accounts.rows(kept) == before
    expected = "expected no level for crosses_field; it has comparedWith; was 5.0"
    assert refused.json()["error"]["message"] == expected


async def test_an_unknown_or_anothers_alert_is_404(service: Service, key: str) -> None:
    path = f"{SIGNALS}/{(await make(service, key))['signalId']}"
    other = await Agent(service, "other@example.org").key(Scope.SIGNALS_WRITE)
    assert (await call(service, other, "GET", SIGNALS)).json()["data"] == {"signals": []}
    for caller, where in ((other, path), (key, f"{SIGNALS}/99"), (key, f"{SIGNALS}/x")):
        for method, end, body in (
            ("GET", "", None),
            ("PATCH", "", {"name": "theirs"}),
            ("DELETE", "", None),
            ("GET", "/events", None),
            ("POST", "/secret", None),
            ("POST", "/test", None),
        ):
            response = await call(service, caller, method, f"{where}{end}", body)
            assert refusal(response) == (404, "NOT_FOUND")
            assert "alert with this number" in response.json()["error"]["message"]
    assert (await call(service, key, "GET", path)).json()["data"]["name"] == "up"


async def test_an_account_has_at_most_20_alerts(service: Service, key: str) -> None:
    for _ in range(20):
        await make(service, key)
    response = await call(service, key, "POST", SIGNALS, ASKED)
    assert refusal(response) == (400, "BAD_REQUEST")
    assert "20 alerts" in response.json()["error"]["message"]


async def test_the_same_idempotency_key_creates_one_alert(service: Service, key: str) -> None:
    first = await call(service, key, "POST", SIGNALS, ASKED, **IDEMPOTENT)
    again = await call(service, key, "POST", SIGNALS, ASKED, **IDEMPOTENT)
    assert first.status_code == again.status_code == 201
    assert first.json()["data"] == again.json()["data"]
    other = await call(service, key, "POST", SIGNALS, ASKED | {"level": 1}, **IDEMPOTENT)
    assert refusal(other) == (409, "IDEMPOTENCY_KEY_USED")
    stranger = await Agent(service, "other@example.org").key(Scope.SIGNALS_WRITE)
    theirs = await call(service, stranger, "POST", SIGNALS, ASKED, **IDEMPOTENT)
    assert theirs.json()["data"]["signalId"] != first.json()["data"]["signalId"]
    await call(service, key, "DELETE", f"{SIGNALS}/{first.json()['data']['signalId']}")
    gone = await call(service, key, "POST", SIGNALS, ASKED, **IDEMPOTENT)
    assert refusal(gone) == (404, "NOT_FOUND")
    assert "this Idempotency-Key was deleted" in gone.json()["error"]["message"]


async def test_an_alert_with_email_is_refused_without_a_verified_address(
    service: Service, key: str
) -> None:
    service.accounts.change('UPDATE "user" SET verified_at = NULL')
    response = await call(service, key, "POST", SIGNALS, ASKED | {"email": True})
    assert refusal(response) == (400, "BAD_REQUEST")


async def test_a_webhook_secret_is_renewed_and_shown_once(service: Service, key: str) -> None:
    made = await make(service, key)
    path = f"{SIGNALS}/{made['signalId']}"
    renewed = await call(service, key, "POST", f"{path}/secret")
    assert renewed.status_code == 201
    assert renewed.json()["data"]["webhookSecret"] != made["webhookSecret"]
    assert "webhookSecret" not in (await call(service, key, "GET", path)).json()["data"]
    kept = service.accounts.rows("SELECT * FROM signal")
    for reported in (made, renewed.json()["data"]):
        secret = b64decode(reported["webhookSecret"].removeprefix("whsec_"))
        assert all(secret not in row for row in kept)
    nonce = service.accounts.rows("SELECT nonce FROM signal")[0][0]
    secret = b64decode(renewed.json()["data"]["webhookSecret"].removeprefix("whsec_"))
    assert hmac.compare_digest(service.accounts.secrets.webhook_secret(nonce), secret)


async def test_a_repetition_with_the_same_key_renews_no_webhook_secret(
    service: Service, key: str
) -> None:
    path = f"{SIGNALS}/{(await make(service, key))['signalId']}/secret"
    other = f"{SIGNALS}/{(await make(service, key))['signalId']}/secret"
    named = {"idempotency-key": "a key that is hard to guess".replace(" ", "-")}
    first = await call(service, key, "POST", path, **named)
    again = await call(service, key, "POST", path, **named)
    refused = await call(service, key, "POST", other, **named)
    missing = await call(service, key, "POST", f"{SIGNALS}/99/secret")

    assert (first.status_code, again.status_code) == (201, 201)
    assert again.json()["data"] == first.json()["data"]
    assert refusal(refused) == (409, "IDEMPOTENCY_KEY_USED")
    assert refusal(missing) == (404, "NOT_FOUND")


async def test_a_test_alert_makes_an_event_and_an_email(service: Service, key: str) -> None:
    made = await make(service, key, webhookUrl="https://example.org/hook", email=True)
    path = f"{SIGNALS}/{made['signalId']}"
    tested = await call(service, key, "POST", f"{path}/test")
    assert tested.status_code == 201
    event = tested.json()["data"]
    assert event["kind"] == "test"
    assert event["webhook"] == {
        "state": "waiting",
        "attempts": 0,
        "nextAttemptAt": NOW // 1000,
        "deliveredAt": None,
        "reason": None,
    }
    listed = (await call(service, key, "GET", f"{path}/events")).json()["data"]
    assert listed == {"events": [event], "nextCursor": None}
    emails = await service.accounts.store.read(lambda rows: rows.emails.newest(9))
    assert [each.kind for each in emails].count(EmailKind.SIGNAL_FIRED) == 1
    answers = [(await call(service, key, "POST", f"{path}/test")).status_code for _ in range(10)]
    assert answers == [201] * 9 + [429]
    page = (await call(service, key, "GET", f"{path}/events?limit=4")).json()["data"]
    rest = await call(service, key, "GET", f"{path}/events?limit=9&cursor={page['nextCursor']}")
    ids = [each["eventId"] for each in page["events"] + rest.json()["data"]["events"]]
    assert ids == sorted(ids, reverse=True)
    assert len(ids) == 10


async def test_a_firing_makes_an_event(service: Service, key: str) -> None:
    watcher = watcher_of(service)
    await watcher.round()
    low = await make(service, key, level=0.0)  # the price is above it already: no firing
    moved = (await call(service, key, "POST", SIGNALS, MOVE | {"field": "price.usd"})).json()
    await watcher.round()
    for _ in range(3):
        trade(service.log, Mint(WSOL))
        await watcher.round()
    events = f"{SIGNALS}/{low['signalId']}/events"
    assert (await call(service, key, "GET", events)).json()["data"]["events"] == []
    moved_events = f"{SIGNALS}/{moved['data']['signalId']}/events"
    fired = (await call(service, key, "GET", moved_events)).json()["data"]["events"]
    assert fired
    assert {each["kind"] for each in fired} == {"fired"}
    line = (await call(service, key, "GET", moved_events.removesuffix("/events"))).json()["data"]
    assert line["firedAt"] == NOW // 1000


async def fired_by(service: Service, key: str, made: dict[str, Any]) -> list[float]:
    """Return the values at which the alert *made* fired, oldest first."""
    path = f"{SIGNALS}/{made['signalId']}/events"
    events = (await call(service, key, "GET", path)).json()["data"]["events"]
    return [each["value"] for each in reversed(events)]


def priced(service: Service, usd: float, *, depth_usd: int) -> None:
    """Append a trade of SOL at *usd*, in a pool with a depth of *depth_usd* USD."""
    tip = service.log.tip_at(service.log.seq)
    slot, time = (tip.slot or 0) + 1, tip.time or 0
    traded = PricedSwap(Mint(WSOL), 0, 0, -1, 0, True, 10**6, usd, usd / 100)  # noqa: FBT003
    pools = packed_pool(time, depth_usd=depth_usd)
    service.log.append(slot, time, traded, standings={Mint(WSOL): pools})


async def test_an_alert_about_a_price_ignores_prices_below_its_least_confidence(
    service: Service, key: str
) -> None:
    watcher = watcher_of(service)
    usual = {name: value for name, value in MOVE.items() if name != "leastConfidence"}
    usual |= {"field": "price.usd"}
    low = await make_as(service, key, usual | {"leastConfidence": "low"})
    medium = await make_as(service, key, usual)
    high = await make_as(service, key, usual | {"leastConfidence": "high"})
    liquidity = await make_as(service, key, usual | {"field": "price.liquidityUsd"})
    await watcher.round()
    for usd, depth_usd in ((100.0, 10), (100.0, 200_000), (200.0, 5_000), (200.0, 200_000)):
        priced(service, usd, depth_usd=depth_usd)
        await watcher.round()

    assert (low["leastConfidence"], medium["leastConfidence"]) == ("low", "medium")
    assert await fired_by(service, key, low) == [100.0, 200.0]
    assert await fired_by(service, key, medium) == [200.0]
    assert await fired_by(service, key, high) == [200.0]
    assert await fired_by(service, key, liquidity) == [200_000.0, 5_000.0, 200_000.0]


async def test_another_least_confidence_makes_a_new_revision_of_an_alert(
    service: Service, key: str
) -> None:
    made = await make(service, key)
    path = f"{SIGNALS}/{made['signalId']}"
    revision = "SELECT revision FROM signal"
    before = service.accounts.rows(revision)
    same = await call(service, key, "PATCH", path, {"leastConfidence": "medium"})
    assert (same.json()["data"]["leastConfidence"], service.accounts.rows(revision)) == (
        "medium",
        before,
    )
    changed = await call(service, key, "PATCH", path, {"leastConfidence": "high"})
    assert changed.json()["data"]["leastConfidence"] == "high"
    assert service.accounts.rows(revision) == [(before[0][0] + 1,)]
    wrong = await call(service, key, "PATCH", path, {"leastConfidence": "certain"})
    assert refusal(wrong) == (400, "BAD_REQUEST")


async def test_at_most_three_webhooks_of_one_alert_wait(service: Service, key: str) -> None:
    """Nothing is sent, as if the receiver were down: the oldest and the two newest wait."""
    watcher, deliveries = watcher_of(service), deliveries_of(service, waiting_max=3)
    move = MOVE | {"field": "price.usd", "webhookUrl": "https://example.org/"}
    dead, quiet = [
        (await call(service, key, "POST", SIGNALS, each)).json()["data"]["signalId"]
        for each in (move, move | {"webhookUrl": None})
    ]
    await watcher.round()
    dropped_now = 0
    for _ in range(9):
        trade(service.log, Mint(WSOL))
        await watcher.round()
        dropped_now += await deliveries.take_in()

    path = f"{SIGNALS}/{dead}/events"
    events = (await call(service, key, "GET", path)).json()["data"]["events"]
    reported = [(each["webhook"]["state"], each["webhook"]["reason"]) for each in events]
    dropped = ("given_up", "3 others waited")
    waiting = ("waiting", None)
    assert len(reported) > 4
    assert reported == [waiting, waiting, *[dropped] * (len(reported) - 3), waiting]
    assert dropped_now == len(reported) - 3
    path = f"{SIGNALS}/{quiet}/events"
    events = (await call(service, key, "GET", path)).json()["data"]["events"]
    assert [each["webhook"] for each in events] == [None] * len(reported)


async def test_a_new_address_or_a_test_ends_the_pause_after_a_failed_webhook(
    service: Service, key: str
) -> None:
    one = "https://example.org/one"
    two = "https://example.org/two"
    made = await make(service, key, webhookUrl=one)
    deliveries = deliveries_of(service, 9)
    path = f"{SIGNALS}/{made['signalId']}"

    async def refused() -> list[str]:
        """Let the receivers reject all due webhooks; return the URLs of these webhooks."""
        await deliveries.take_in()
        turns = await deliveries.lease([])
        ended = [
            Ended(turn, [Attempt(each.firing, "no") for each in turn.webhooks]) for turn in turns
        ]
        await deliveries.note(ended)
        return [each.url for turn in turns for each in turn.webhooks]

    assert (await call(service, key, "POST", f"{path}/test")).status_code == 201
    assert [await refused(), await refused()] == [[one], []], "it rests"
    assert (await call(service, key, "PATCH", path, {"webhookUrl": two})).status_code == 200
    assert [await refused(), await refused()] == [[two], []]
    service.clock.advance(1_000)
    assert (await call(service, key, "PATCH", path, {"name": "other"})).status_code == 200
    assert await refused() == []
    assert (await call(service, key, "POST", f"{path}/test")).status_code == 201
    assert [await refused(), await refused()] == [[two, two], []]


@pytest.mark.parametrize(
    ("is_gone", "later_ms"),
    [
        pytest.param(True, 0, id="gone"),
        pytest.param(False, DAY_MS, id="the last attempt"),
        pytest.param(False, 0, id="an attempt"),
    ],
)
async def test_a_failure_of_the_old_url_does_not_affect_the_new_url(
    service: Service, key: str, *, is_gone: bool, later_ms: int
) -> None:
    one = "https://example.org/one"
    two = "https://example.org/two"
    made = await make(service, key, webhookUrl=one)
    deliveries = deliveries_of(service, 9)
    path = f"{SIGNALS}/{made['signalId']}"
    assert (await call(service, key, "POST", f"{path}/test")).status_code == 201
    await deliveries.take_in()
    (turn,) = await deliveries.lease([])
    assert [each.url for each in turn.webhooks] == [one]
    service.clock.advance(later_ms)
    changed = (await call(service, key, "PATCH", path, {"webhookUrl": two})).json()["data"]

    attempts = [Attempt(each.firing, "no", is_gone=is_gone) for each in turn.webhooks]
    assert await deliveries.note([Ended(turn, attempts)]) == []
    assert (await call(service, key, "GET", path)).json()["data"] == changed
    (again,) = await deliveries.lease([])
    assert [each.url for each in again.webhooks] == [two]
    await deliveries.note([Ended(again, [Attempt(each.firing) for each in again.webhooks])])
    (event,) = (await call(service, key, "GET", f"{path}/events")).json()["data"]["events"]
    assert event["webhook"]["state"] == "delivered"
    emails = await service.accounts.store.read(lambda rows: rows.emails.newest(9))
    assert EmailKind.WEBHOOK_DISABLED not in {each.kind for each in emails}


def deliveries_of(service: Service, waiting_max: int) -> Deliveries:
    signals = service.accounts.built.signals
    assert signals.queue is not None
    return Deliveries(
        store=service.accounts.store,
        queue=signals.queue,
        secrets=signals.secrets,
        clock=service.clock,
        retry_ms_max=DAY_MS,
        waiting_max=waiting_max,
    )


def watcher_of(service: Service) -> AlertEvaluator:
    clock: ManualClock = service.clock
    return AlertEvaluator(
        reader=service.log,
        writer=AlertWriter(
            store=service.accounts.store,
            clock=clock,
            holder=b"here",
        ),
        evaluation=Evaluation(tracks=Tracks(4)),
        clock=clock,
        wait=look_again_soon,
    )


async def test_each_route_needs_its_scope_and_a_key(service: Service) -> None:
    reader = await Agent(service).key(Scope.SIGNALS_READ)
    writes = (
        ("POST", SIGNALS),
        ("PATCH", f"{SIGNALS}/1"),
        ("DELETE", f"{SIGNALS}/1"),
        ("POST", f"{SIGNALS}/1/secret"),
        ("POST", f"{SIGNALS}/1/test"),
    )
    reads = (("GET", SIGNALS), ("GET", f"{SIGNALS}/1"), ("GET", f"{SIGNALS}/1/events"))
    for method, path in (*writes, *reads):
        assert refusal(await service.client.request(method, path)) == (401, "MISSING_TOKEN")
    assert (await call(service, reader, "GET", SIGNALS)).status_code == 200
    for method, path in writes:
        assert refusal(await call(service, reader, method, path)) == (403, "INSUFFICIENT_SCOPE")


@pytest.mark.parametrize(
    ("where", "kept"),
    [
        ("crosses_below(rsi_h1, 30)", {"field": "indicators.h1.rsi", "kind": "below", "level": 30}),
        ("price > 200", {"field": "price.usd", "kind": "above", "level": 200}),
        ("0.5 >= pressure_h1",
         {"field": "indicators.buySellPressure.h1", "kind": "below", "level": 0.5}),
        ("liquidity < 1e5", {"field": "price.liquidityUsd", "kind": "below", "level": 100_000}),
        ("crosses_above(price, ema200_m15)",
         {"field": "price.usd", "kind": "crosses_field", "direction": "up",
          "comparedWith": "indicators.m15.ema200", "level": None}),
        ("crosses_below(rsi_h4, 30)",
         {"field": "indicators.h4.rsi", "kind": "below", "level": 30}),
        ("price > swing_high_d1",
         {"field": "price.usd", "comparedWith": "indicators.d1.fibonacci.swingHigh"}),
        ("macd_h1 < -1", {"kind": "below", "level": -1.0}),
        ("-0.5 < macd_h1", {"kind": "above", "level": -0.5}),
        ("macd_h1 > -(0.25)", {"kind": "above", "level": -0.25}),
        ("macd_h1 < macd_signal_h1",
         {"field": "indicators.h1.macd.line", "kind": "crosses_field", "direction": "down",
          "comparedWith": "indicators.h1.macd.signal"}),
    ],
)  # fmt: skip
async def test_a_condition_of_one_comparison_becomes_an_alert(
    service: Service, key: str, where: str, kept: dict[str, Any]
) -> None:
    body = {"name": "From a backtest", "mint": WSOL, "kind": "condition", "where": where}
    response = await call(service, key, "POST", SIGNALS, body)
    assert response.status_code == 201, response.text
    data = response.json()["data"]
    assert {name: data[name] for name in kept} == kept


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("price > 1 and price < 2", "one comparison"),
        ("not price > 1", "one comparison"),
        ("price = 1", "one comparison"),
        ("price * 2 > 1", "one comparison"),
        ("market_cap > 1", "market_cap is not a field of reports"),
        ("price > age_s", "age_s is not a field of reports"),
        ("price >", "at character"),
    ],
)
async def test_a_condition_that_an_alert_cannot_evaluate_is_refused(
    service: Service, key: str, where: str, said: str
) -> None:
    body = {"name": "More", "mint": WSOL, "kind": "condition", "where": where}
    response = await call(service, key, "POST", SIGNALS, body)
    assert refusal(response) == (400, "BAD_REQUEST")
    assert said in response.json()["error"]["message"]
