"""A lost answer is sent again to its payer, and to no other client."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from itertools import count
from typing import Any, Final

import httpx
import pytest
from prometheus_client import REGISTRY

from mintscope.kit.credentials import hint
from mintscope.payments.payment import State
from mintscope.payments.ports import ChainUnavailable
from support.fakes.reports import TRACKED
from support.scenes.engine import payment_store, writing
from support.scenes.payments.payment_world import EXPIRY_SLOTS, World, on_older_chain
from support.scenes.payments.selling_api import (
    KEY,
    OTHER_KEY,
    PURCHASE,
    SellingApi,
    decoded,
    demanded,
    opened,
)
from support.scenes.service import bearer, refusal
from support.spoiling import RUINED

DAY_MS: Final = 24 * 3_600_000
SUSPENSIONS_MAX: Final = 300
REPORT: Final = f"/v1/token/{TRACKED}"


def given_out() -> tuple[float, ...]:
    """Return the values of the metrics of issued payments and of sold credits."""
    names = ("mintscope_payments_issued_total", "mintscope_credits_sold_total")
    return tuple(REGISTRY.get_sample_value(name) or 0 for name in names)


@pytest.fixture
async def hasty(world: World) -> AsyncIterator[SellingApi]:
    """A service that waits only for a moment for the chain."""
    async with opened(world, patience_s=0.02) as shop:
        yield shop


@pytest.mark.parametrize(("method", "path"), [("POST", PURCHASE), ("GET", REPORT)])
async def test_a_paid_answer_is_sent_again_with_its_key_and_is_409_without_it(
    shop: SellingApi, world: World, method: str, path: str
) -> None:
    payment = await shop.paid(method, path)
    first = await shop.send(method, path, payment, key=KEY)

    again = await shop.send(method, path, payment, key=KEY)
    assert again.status_code == first.status_code
    assert again.json()["data"] == first.json()["data"]
    assert again.headers["payment-response"] == first.headers["payment-response"]
    assert "idempotent-replayed" not in first.headers
    assert again.headers["idempotent-replayed"] == "true"
    for key in (None, OTHER_KEY):
        stolen = await shop.send(method, path, payment, key=key)
        assert refusal(stolen) == (409, "PAYMENT_ALREADY_USED")
    assert world.calls.count("sendTransaction") == 1


@pytest.mark.parametrize(
    ("price_age_ms", "later_ms", "expected"),
    [(299_000, 0, "live"), (300_001, 0, "idle"), (None, 0, "live"), (300_001, 60_000, "degraded")],
)
async def test_a_repeated_report_has_the_data_status_of_its_own_data(
    shop: SellingApi, price_age_ms: int | None, later_ms: int, expected: str
) -> None:
    shop.service.reports.price_age_ms[TRACKED] = price_age_ms
    payment = await shop.paid("GET", REPORT)
    first = await shop.send("GET", REPORT, payment, key=KEY)
    shop.service.reports.price_age_ms[TRACKED] = 0
    shop.service.clock.advance(later_ms)
    again = await shop.send("GET", REPORT, payment, key=KEY)

    assert again.json()["data"] == first.json()["data"]
    assert again.headers["x-data-status"] == expected


async def test_an_answer_is_sent_again_only_to_the_same_request(
    shop: SellingApi,
) -> None:
    payment = await shop.paid("POST", PURCHASE)
    await shop.send("POST", PURCHASE, payment, key=KEY)

    for method, path in (("POST", "/v1/credits/purchase?bundle=500"), ("GET", REPORT)):
        elsewhere = await shop.send(method, path, payment, key=KEY)
        assert refusal(elsewhere) == (409, "PAYMENT_ALREADY_USED")


async def test_quotation_marks_around_an_idempotency_key_are_ignored(shop: SellingApi) -> None:
    payment = await shop.paid("POST", PURCHASE)
    first = await shop.send("POST", PURCHASE, payment, key=f'"{KEY}"')

    again = await shop.send("POST", PURCHASE, payment, key=KEY)
    assert again.json()["data"] == first.json()["data"]


async def test_an_answer_is_sent_again_for_a_day(shop: SellingApi, world: World) -> None:
    payment = await shop.paid("POST", PURCHASE)
    await shop.send("POST", PURCHASE, payment, key=KEY)
    world.clock.advance(DAY_MS - 60_000)
    assert (await shop.send("POST", PURCHASE, payment, key=KEY)).status_code == 201
    world.clock.advance(60_000)

    late = await shop.send("POST", PURCHASE, payment, key=KEY)
    assert refusal(late) == (409, "PAYMENT_ALREADY_USED")


async def test_a_credit_token_is_not_sent_again_after_it_was_used(shop: SellingApi) -> None:
    payment = await shop.paid("POST", PURCHASE)
    first = await shop.send("POST", PURCHASE, payment, key=KEY)
    await shop.client.get(REPORT, headers=bearer(first.json()["data"]["token"]))

    late = await shop.send("POST", PURCHASE, payment, key=KEY)
    assert refusal(late) == (409, "PAYMENT_ALREADY_USED")


@pytest.mark.parametrize("ruin", RUINED.values(), ids=RUINED)
async def test_a_key_redeems_a_payment_after_unreadable_answers_of_the_node(
    hasty: SellingApi, world: World, ruin: Callable[[bytes], bytes]
) -> None:
    payment = await hasty.paid("POST", PURCHASE)
    lost_after = ("sendTransaction", "getSignatureStatuses", "getTransaction")
    world.spoil = dict.fromkeys(lost_after, ruin)
    pending = await hasty.send("POST", PURCHASE, payment)
    assert refusal(pending) == (503, "PAYMENT_PENDING")
    key = pending.headers["idempotency-key"]
    assert refusal(await hasty.send("POST", PURCHASE, payment, key=key)) == (503, "PAYMENT_PENDING")
    with pytest.raises(ChainUnavailable):
        await world.reconciler().once()
    world.spoil = {}
    world.slots(2)
    before = given_out()
    await world.reconciler().once()
    assert given_out() == (before[0] + 1, before[1] + 10), "counted when it was resolved"

    redeemed = await hasty.send("POST", PURCHASE, payment, key=key)
    assert redeemed.status_code == 201
    assert given_out() == (before[0] + 1, before[1] + 10), "once"
    assert world.fees() == 10_001


@pytest.mark.parametrize("key", [None, KEY])
async def test_a_payment_that_a_blocked_store_refused_is_accepted_later(
    world: World, key: str | None
) -> None:
    """The payment may have been stored after all: the key in the refusal redeems it."""
    store = payment_store(world.path, patience_s=0.03)
    async with opened(world, store=store) as shop:
        payment = await shop.paid("POST", PURCHASE)
        with writing(world.path):
            refused = await shop.send("POST", PURCHASE, payment, key=key)
            code = "PAYMENT_PENDING" if key is None else "SERVICE_UNAVAILABLE"
            assert refusal(refused) == (503, code)
            assert ("idempotency-key" in refused.headers) == (key is None)
        async with asyncio.timeout(10):
            answer = refused
            shown = key
            while answer.status_code == 503:
                shown = answer.headers.get("idempotency-key", shown)
                answer = await shop.send("POST", PURCHASE, payment, key=shown)
        assert answer.status_code == 201, answer.text
    await store.close()
    assert world.received() == 25_000
    assert list(world.ledger().values()) == [10]


async def test_an_idempotency_key_belongs_to_one_payment(shop: SellingApi, world: World) -> None:
    await shop.buy(key=KEY)

    second = await shop.buy(key=KEY)
    assert refusal(second) == (409, "PAYMENT_ALREADY_USED")
    assert "Idempotency-Key" in second.json()["error"]["message"]
    assert world.received() == 25_000


@pytest.mark.parametrize(("method", "path"), [("POST", PURCHASE), ("GET", REPORT)])
async def test_a_payment_on_a_slow_chain_is_503_and_its_key_redeems_it(
    hasty: SellingApi, world: World, method: str, path: str
) -> None:
    world.go_wrong(landing={"kind": "late", "ms": 15_000})
    payment = await hasty.paid(method, path)
    pending = await hasty.send(method, path, payment)
    assert refusal(pending) == (503, "PAYMENT_PENDING")
    assert pending.headers["retry-after"] == "2"
    assert pending.headers["cache-control"] == "no-store"
    assert "payment-required" not in pending.headers
    key = pending.headers["idempotency-key"]
    still = await hasty.send(method, path, payment, key=key)
    assert refusal(still) == (503, "PAYMENT_PENDING")
    assert "idempotency-key" not in still.headers
    stolen = await hasty.send(method, path, payment)
    assert refusal(stolen) == (409, "PAYMENT_ALREADY_USED")
    assert "idempotency-key" not in stolen.headers
    world.slots(80)

    redeemed = await hasty.send(method, path, payment, key=key)
    assert redeemed.is_success
    assert decoded(redeemed, "payment-response")["success"] is True
    assert world.fees() == 10_001


async def test_a_client_with_an_idempotency_key_gets_no_other_key(
    hasty: SellingApi, world: World
) -> None:
    world.go_wrong(landing={"kind": "never"})
    pending = await hasty.buy(key=KEY)

    assert refusal(pending) == (503, "PAYMENT_PENDING")
    assert "idempotency-key" not in pending.headers


async def test_a_payment_that_never_landed_is_402_after_its_expiry(
    hasty: SellingApi, world: World
) -> None:
    world.go_wrong(landing={"kind": "never"})
    payment = await hasty.paid("POST", PURCHASE)
    await hasty.send("POST", PURCHASE, payment, key=KEY)
    world.slots(EXPIRY_SLOTS * 2)

    dead = await hasty.send("POST", PURCHASE, payment, key=KEY)
    assert refusal(dead) == (402, "PAYMENT_FAILED")
    result = decoded(dead, "payment-response")
    assert (result["success"], result["errorReason"]) == (False, "transaction_expired")
    world.go_wrong()
    sent_before = world.calls.count("sendTransaction")
    second = hasty.pay(demanded(dead))
    retried = await hasty.send("POST", PURCHASE, second, key=KEY)
    assert retried.status_code in {201, 503}
    assert world.calls.count("sendTransaction") > sent_before
    world.slots(80)
    assert (await hasty.send("POST", PURCHASE, second, key=KEY)).status_code == 201
    assert world.received() == 25_000
    assert list(world.ledger().values()) == [10]


async def test_a_dropped_payment_is_broadcast_again_when_its_client_resends_it(
    hasty: SellingApi, shop: SellingApi, world: World
) -> None:
    world.go_wrong(landing={"kind": "dropped", "times": 4})
    payment = await hasty.paid("POST", PURCHASE)
    assert refusal(await hasty.send("POST", PURCHASE, payment, key=KEY))[0] == 503

    assert (await shop.send("POST", PURCHASE, payment, key=KEY)).status_code == 201
    assert world.received() == 25_000


@on_older_chain
async def test_a_vanished_payment_is_503_and_its_credit_token_is_402(
    shop: SellingApi, world: World
) -> None:
    world.go_wrong(landing={"kind": "vanish", "ms": 400, "times": 1})
    payment = await shop.paid("POST", PURCHASE)
    bought = await shop.send("POST", PURCHASE, payment, key=KEY)
    assert bought.status_code == 201
    await world.miss()

    token = bought.json()["data"]["token"]
    assert refusal(await shop.client.get(REPORT, headers=bearer(token)))[0] == 402
    assert refusal(await shop.send("POST", PURCHASE, payment, key=KEY))[0] == 503


class Doomed:
    """Awaits *work*, and cancels the current task when *work* waits for the *fatal*-th time."""

    def __init__(self, work: Awaitable[Any], fatal: int) -> None:
        self._work = work
        self._fatal = fatal
        self.is_cancelled = False

    def __await__(self) -> Generator[Any, Any, Any]:
        steps = self._work.__await__()
        step: Any = lambda: next(steps)  # noqa: E731  its argument changes with every turn
        for number in count(1):
            try:
                waits_for = step()
            except StopIteration as end:
                return end.value
            if number == self._fatal:
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
                self.is_cancelled = True
            try:
                yield waits_for
                step = lambda: next(steps)  # noqa: E731
            except BaseException as error:  # noqa: BLE001  passed on as it is
                step = _thrower(steps, error)


def _thrower(steps: Generator[Any, Any, Any], error: BaseException) -> Any:
    return lambda: steps.throw(error)


async def dies(shop: SellingApi, method: str, path: str, headers: Any, at: int) -> bool:
    """Cancel the handler of a request at its *at*-th wait; return whether it waited that often."""

    async def receive() -> Any:
        raise AssertionError("there is no body")

    async def send(_message: Any) -> None:
        return

    target = httpx.URL(path)
    scope = {
        "type": "http",
        "method": method,
        "path": target.path,
        "query_string": target.query,
        "client": ("127.0.0.1", 1),
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
    }

    doomed = Doomed(shop.service.app(scope, receive, send), at)

    async def live() -> None:
        await doomed

    await asyncio.wait([asyncio.create_task(live())])
    return doomed.is_cancelled


@pytest.mark.parametrize(("method", "path"), [("POST", PURCHASE), ("GET", REPORT)])
async def test_a_handler_that_is_cancelled_at_any_await_loses_no_payment(
    shop: SellingApi, world: World, method: str, path: str
) -> None:
    """Whichever await is cancelled, the buyer with its key is served, and a stranger is not."""
    world.go_wrong(latency_ms={"*": 1})  # so that each request to the node is an await
    bought = 0
    for at in range(1, SUSPENSIONS_MAX):
        key = f"{KEY}-{at}"
        payment = await shop.paid(method, path)
        sent_before = world.calls.count("sendTransaction")
        headers = {"PAYMENT-SIGNATURE": payment, "Idempotency-Key": key}
        died = await dies(shop, method, path, headers, at)
        if world.calls.count("sendTransaction") > sent_before:  # the payment is public
            for other in (None, OTHER_KEY):
                stolen = await shop.send(method, path, payment, key=other)
                assert refusal(stolen) == (409, "PAYMENT_ALREADY_USED")
        answer = await shop.send(method, path, payment, key=key)
        assert answer.is_success, (at, answer.text)
        bought += 1
        again = await shop.send(method, path, payment, key=key)
        assert again.json()["data"] == answer.json()["data"]
        if not died:
            break

    assert bought >= 6
    assert not died
    price = 25_000 if path == PURCHASE else 2_500
    assert world.received() == bought * price
    assert world.fees() == bought * 10_001
    assert list(world.ledger().values()) == [10] * (bought if path == PURCHASE else 0)


@pytest.mark.parametrize("after", ["simulateTransaction", "sendTransaction"])
async def test_another_process_completes_the_payment_of_a_dead_process(
    world: World, after: str
) -> None:
    async with opened(world) as dying, opened(world) as other:
        payment = await dying.paid("POST", PURCHASE)
        request = asyncio.create_task(dying.send("POST", PURCHASE, payment, key=KEY))
        await world.until_called(after)
        request.cancel()
        await asyncio.gather(request, return_exceptions=True)
        world.slots(3)
        await world.reconciler().once()
        answer = await other.send("POST", PURCHASE, payment, key=KEY)

    assert answer.status_code == 201
    assert world.ledger() == {hint(answer.json()["data"]["token"]): 10}
    assert world.sql("SELECT state FROM payment") == State.ISSUED
    assert world.fees() == 10_001
