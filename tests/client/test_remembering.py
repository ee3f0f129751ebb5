"""A buyer trusts the chain: no answer of a seller makes it forget a payment or pay twice."""

import asyncio
import errno
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path
from threading import Barrier
from typing import Any, ClassVar, Final

import httpx
import pytest
from typing_extensions import override

from mintscope.payments.protocol.headers import PAYMENT_REQUIRED, PAYMENT_SIGNATURE
from mintscope_client.auth import PaymentAuth
from mintscope_client.buyer import Buyer
from mintscope_client.calls.conversation import IDEMPOTENCY_KEY
from mintscope_client.errors import PendingError, RefusedError
from mintscope_client.journal import SENT_MAX, Journal, JournalUnusable, Sent
from mintscope_client.node import NODE_TIMEOUT_S
from mintscope_client.wallet import OverSpendLimit, WillNotPay
from support.scenes.payments.payment_build import payer_wallet
from support.scenes.payments.payment_shop import Shop
from support.scenes.payments.payment_world import EXPIRY_SLOTS, World

KEY: Final = "the-secret-of-the-buyer"
PRICE: Final = 22_500
PURCHASE: Final = "https://shop.example/v1/credits/purchase?bundle=10"


class Street(httpx.AsyncBaseTransport):
    """A transport to a shop and to the chain's node.

    refusing        the answer to every payment, in place of that of the shop
    is_deaf         whether payments do not reach the shop while *refusing* is set
    is_node_away    whether the node does not answer
    """

    def __init__(self, world: World, *, patience_s: float = 0.4) -> None:
        self._shop = httpx.ASGITransport(app=Shop(world.facilitator(patience_s=patience_s)).app)
        self._chain = world.transport
        self.paid: list[str] = []
        self.of_node: list[httpx.Request] = []
        self.refusing: httpx.Response | None = None
        self.is_deaf = False
        self.is_node_away = False

    @override
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.host == "chain":
            self.of_node.append(request)
            if self.is_node_away:
                raise httpx.ConnectError("refused", request=request)
            return await self._chain.handle_async_request(request)
        payment = request.headers.get(PAYMENT_SIGNATURE)
        if payment is not None:
            self.paid.append(payment)
            if self.is_deaf and self.refusing is not None:
                return self.refusing
        answer = await self._shop.handle_async_request(request)
        return answer if payment is None or self.refusing is None else self.refusing


class Bridge(httpx.BaseTransport):
    """Passes the requests of a client in a thread to *street*, a Street."""

    def __init__(self, street: Street) -> None:
        self._street = street
        self._loop = asyncio.get_running_loop()

    @override
    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return asyncio.run_coroutine_threadsafe(self._pass(request), self._loop).result(10)

    async def _pass(self, request: httpx.Request) -> httpx.Response:
        answer = await self._street.handle_async_request(request)
        return httpx.Response(
            answer.status_code, headers=answer.headers, content=await answer.aread()
        )


class Visit:
    """A buyer who sends requests by the asynchronous or the synchronous client of httpx."""

    def __init__(
        self, world: World, way: str = "async", journal: Journal | None = None, **wallet: Any
    ) -> None:
        self.world = world
        self.street = Street(world, patience_s=wallet.pop("patience_s", 0.4))
        self.wallet = payer_wallet(world.terms, world.buyer, **wallet)
        self.auth = PaymentAuth(self.wallet, rpc_url="http://chain/", journal=journal)
        self.way = way
        self.waited_s: list[float] = []

    async def buy(self, key: str = KEY) -> httpx.Response:
        """Send one request for a bundle, with the Idempotency-Key *key*; return the answer."""
        headers = {IDEMPOTENCY_KEY: key}
        if self.way == "async":
            async with httpx.AsyncClient(transport=self.street, auth=self.auth) as http:
                return await http.post(PURCHASE, headers=headers)
        bridge = Bridge(self.street)

        def post() -> httpx.Response:
            with httpx.Client(transport=bridge, auth=self.auth) as http:
                return http.post(PURCHASE, headers=headers)

        return await asyncio.to_thread(post)

    async def buy_nothing(self) -> httpx.Response:
        """Request a bundle without a payment; return the answer, a 402 with the price."""
        async with httpx.AsyncClient(transport=self.street) as http:
            return await http.post(PURCHASE)

    async def buy_credits(self, key: str | None = None) -> str:
        """Buy credits with a Buyer, which retries until they arrive; return the credit token."""
        async with httpx.AsyncClient(
            transport=self.street, base_url="https://shop.example"
        ) as http:
            buyer = Buyer(http, self.auth, clock=self.world.clock, sleep=self._wait)
            return (await buyer.buy_credits(10, key=key)).token

    async def _wait(self, seconds: float) -> None:
        self.waited_s.append(seconds)
        self.world.slots(int(seconds / 0.4) + 1)
        if len(self.waited_s) == 2:
            self.street.refusing = None


ways = pytest.mark.parametrize("way", ["async", "sync"])


@pytest.mark.storm
@ways
@pytest.mark.parametrize(
    "status", [307, 400, 401, 402, 403, 404, 408, 409, 410, 413, 425, 429, 431, 500, 502, 503, 504]
)
async def test_the_same_key_sends_the_same_payment_after_any_refusal_of_the_seller(
    world: World, way: str, status: int
) -> None:
    visit = Visit(world, way)
    visit.street.refusing = httpx.Response(status, json={})
    for _ in range(3):
        assert (await visit.buy()).status_code == status
        assert visit.auth.holds(KEY)
    visit.street.refusing = None
    bought = await visit.buy()

    assert bought.status_code == 201
    assert not visit.auth.holds(KEY)
    assert len(visit.street.paid) == 4
    assert len(set(visit.street.paid)) == 1
    assert world.received() == visit.wallet.limit.spent == PRICE


@ways
async def test_a_402_of_the_seller_does_not_give_the_amount_back(world: World, way: str) -> None:
    """The shop keeps the payment, but answers 402 as if it had received none."""
    visit = Visit(world, way, atoms_in_all=2 * PRICE)
    demand = {PAYMENT_REQUIRED: (await visit.buy_nothing()).headers[PAYMENT_REQUIRED]}
    visit.street.refusing = httpx.Response(402, headers=demand, json={})
    for number in range(2):
        assert (await visit.buy(f"{KEY}-{number}")).status_code == 402
    with pytest.raises(OverSpendLimit, match=f"{2 * PRICE} are spent"):
        await visit.buy(f"{KEY}-2")
    world.slots(EXPIRY_SLOTS)
    with pytest.raises(OverSpendLimit):
        await visit.buy(f"{KEY}-2")

    assert world.received() == visit.wallet.limit.spent == 2 * PRICE


@ways
async def test_the_amount_of_a_payment_that_cannot_land_is_given_back(
    world: World, way: str
) -> None:
    visit = Visit(world, way, atoms_in_all=PRICE)
    visit.street.is_deaf = True
    visit.street.refusing = httpx.Response(402, json={})
    await visit.buy()
    world.slots(EXPIRY_SLOTS // 2)
    with pytest.raises(OverSpendLimit):  # not expired at the final height
        await visit.buy(f"{KEY}-2")
    assert (await visit.buy()).status_code == 402
    assert visit.auth.holds(KEY)
    world.slots(EXPIRY_SLOTS)
    visit.street.refusing = None

    assert (await visit.buy(f"{KEY}-2")).status_code == 201
    assert visit.wallet.limit.spent == world.received() == PRICE
    assert not visit.auth.holds(KEY)


@ways
@pytest.mark.parametrize("fault", ["refused", "finalized"])
async def test_a_purchase_works_with_a_node_without_the_level_confirmed(
    world: World, way: str, fault: str
) -> None:
    world.slots(40)  # so that there are final blocks
    world.go_wrong(confirmed=fault)
    visit = Visit(world, way, atoms_in_all=PRICE)
    assert (await visit.buy()).status_code == 201
    assert visit.wallet.limit.spent == world.received() == PRICE


@ways
@pytest.mark.parametrize("fault", ["refused", "finalized"])
async def test_a_node_without_the_level_confirmed_proves_that_a_payment_expired(
    world: World, way: str, fault: str
) -> None:
    world.slots(40)  # so that there are final blocks
    visit = Visit(world, way, patience_s=0.02, atoms_in_all=PRICE)
    world.go_wrong(landing={"kind": "never", "times": 1}, confirmed=fault)
    assert (await visit.buy()).status_code == 503
    world.slots(EXPIRY_SLOTS)
    assert (await visit.buy()).status_code == 402
    while (bought := await visit.buy()).status_code == 503:  # the second payment is pending
        world.slots(1)

    assert bought.status_code == 201
    assert world.received() == visit.wallet.limit.spent == PRICE


@ways
async def test_an_expired_payment_is_replaced_by_the_same_request(world: World, way: str) -> None:
    visit = Visit(world, way, patience_s=0.02, atoms_in_all=PRICE)
    world.go_wrong(landing={"kind": "never", "times": 1})
    assert (await visit.buy()).status_code == 503
    world.slots(EXPIRY_SLOTS)
    assert (await visit.buy()).status_code == 402  # now the chain shows that it expired
    while (bought := await visit.buy()).status_code == 503:  # the second payment is pending
        world.slots(1)

    assert bought.status_code == 201
    assert len(set(visit.street.paid)) == 2
    assert world.received() == visit.wallet.limit.spent == PRICE


@ways
@pytest.mark.parametrize(
    "trouble",
    [
        {"calls": {"getEpochInfo": {"kind": "http"}}},
        {"calls": {"getEpochInfo": {"kind": "rpc"}}},
        {"calls": {"getSignaturesForAddress": {"kind": "http", "status": 429}}},
    ],
)
async def test_a_failing_node_does_not_prove_that_a_payment_expired(
    world: World, way: str, trouble: dict[str, Any]
) -> None:
    visit = Visit(world, way)
    visit.street.is_deaf = True
    visit.street.refusing = httpx.Response(402, json={})
    await visit.buy()
    world.slots(EXPIRY_SLOTS)
    world.go_wrong(**trouble)

    assert (await visit.buy()).status_code == 402
    assert visit.auth.holds(KEY)
    assert visit.wallet.limit.spent == PRICE


@ways
async def test_each_request_to_the_node_has_a_timeout(world: World, way: str) -> None:
    visit = Visit(world, way)
    visit.street.is_deaf = True
    visit.street.refusing = httpx.Response(402, json={})
    for _ in range(2):
        await visit.buy()
        world.slots(EXPIRY_SLOTS)

    timeouts = [each.extensions.get("timeout") for each in visit.street.of_node]
    assert len(timeouts) > 2
    assert timeouts == [httpx.Timeout(NODE_TIMEOUT_S).as_dict()] * len(timeouts)


@ways
async def test_a_landed_payment_is_never_paid_again(world: World, way: str) -> None:
    """The seller refuses the payment each time that it is sent."""
    visit = Visit(world, way)
    for status in (402, 409):
        visit.street.refusing = httpx.Response(status, json={})
        for _ in range(2):
            assert (await visit.buy()).status_code == status
            world.slots(EXPIRY_SLOTS)

    assert visit.auth.holds(KEY)
    assert len(set(visit.street.paid)) == 1
    assert visit.wallet.limit.spent == world.received() == PRICE


@ways
async def test_a_payment_that_was_never_signed_costs_nothing(world: World, way: str) -> None:
    visit = Visit(world, way)
    world.go_wrong(calls={"getLatestBlockhash": {"kind": "rpc"}})
    with pytest.raises(WillNotPay, match="getLatestBlockhash"):
        await visit.buy()

    assert visit.wallet.limit.spent == 0
    assert not visit.auth.holds(KEY)


async def test_concurrent_purchases_stay_within_the_budget(world: World) -> None:
    visit = Visit(world, atoms_in_all=4 * PRICE)
    await visit.buy()  # after a first purchase, several payments may be pending
    world.go_wrong(latency_ms={"getLatestBlockhash": 20})  # so that the requests overlap
    answers = await asyncio.gather(
        *(visit.buy(f"{KEY}-{number}") for number in range(10)), return_exceptions=True
    )

    refused = [answer for answer in answers if isinstance(answer, OverSpendLimit)]
    assert len(refused) == 7  # four payments are allowed, and the first purchase was one
    assert world.received() == visit.wallet.limit.spent == 4 * PRICE


async def test_two_concurrent_requests_with_one_key_make_one_payment(world: World) -> None:
    visit = Visit(world)
    world.go_wrong(latency_ms={"getLatestBlockhash": 20})  # so that the requests overlap
    answers = await asyncio.gather(*(visit.buy() for _ in range(2)))

    assert {answer.status_code for answer in answers} == {201}
    assert len(set(visit.street.paid)) == 1
    assert world.received() == visit.wallet.limit.spent == PRICE


async def test_a_payment_beyond_the_size_of_the_journal_is_not_made(world: World) -> None:
    journal = Journal()
    visit = Visit(world, journal=journal)
    for number in range(SENT_MAX):
        journal.add(sent(key=f"{KEY}-{number}", last_valid_height=10**9))
    with pytest.raises(WillNotPay, match="fewer than 1000 payments"):
        await visit.buy()

    assert journal.find(f"{KEY}-0") is not None
    assert visit.wallet.limit.spent == 0


@pytest.mark.parametrize("status", [408, 425, 429, 500, 503])
async def test_a_buyer_waits_for_the_seconds_of_retry_after(world: World, status: int) -> None:
    visit = Visit(world)
    visit.street.refusing = httpx.Response(status, headers={"Retry-After": "45"}, json={})
    await visit.buy_credits()

    assert visit.waited_s == [45, 45]
    assert len(set(visit.street.paid)) == 1
    assert world.received() == PRICE


async def test_a_buyer_waits_until_the_date_of_retry_after(world: World) -> None:
    visit = Visit(world)
    until = format_datetime(
        datetime.fromtimestamp(world.clock.now() // 1000 + 45, UTC), usegmt=True
    )
    visit.street.refusing = httpx.Response(429, headers={"Retry-After": until}, json={})
    await visit.buy_credits()

    assert len(visit.waited_s) == 2
    assert 40 < visit.waited_s[0] <= 45


async def test_a_wait_longer_than_allowed_keeps_the_payment_for_later(world: World) -> None:
    visit = Visit(world)
    visit.street.refusing = httpx.Response(429, headers={"Retry-After": "3600"}, json={})
    with pytest.raises(PendingError) as pending:
        await visit.buy_credits()

    assert visit.waited_s == []
    assert visit.auth.holds(pending.value.key)


async def test_a_purchase_is_completed_later_with_the_key_of_the_error(world: World) -> None:
    visit = Visit(world)
    visit.street.refusing = httpx.Response(429, headers={"Retry-After": "3600"}, json={})
    with pytest.raises(PendingError) as pending:
        await visit.buy_credits()
    visit.street.refusing = None
    await visit.buy_credits(pending.value.key)

    assert world.received() == visit.wallet.limit.spent == PRICE


async def test_two_concurrent_purchases_are_two_payments(world: World, tmp_path: Path) -> None:
    with Journal(tmp_path / "payments") as journal:
        visit = Visit(world, journal=journal)
        tokens = await asyncio.gather(visit.buy_credits(), visit.buy_credits())

    assert len(set(tokens)) == 2
    assert world.received() == visit.wallet.limit.spent == 2 * PRICE


async def test_a_refusal_names_the_key_of_a_payment_that_may_still_land(world: World) -> None:
    visit = Visit(world)
    visit.street.refusing = httpx.Response(404, json={"error": {"code": "X", "message": "y"}})
    with pytest.raises(RefusedError, match="404 X: y") as failed:
        await visit.buy_credits()

    assert failed.value.key is not None
    assert visit.auth.holds(failed.value.key)


def sent(**changes: Any) -> Sent:
    plain = Sent(
        key=KEY, request=f"POST {PURCHASE}", header="h", amount=1, memo="m", source="s", slot=1,
        last_valid_height=1,
    )  # fmt: skip
    return Sent(**({name: getattr(plain, name) for name in plain.__struct_fields__} | changes))


async def test_another_process_completes_a_pending_payment_of_the_journal(
    world: World, tmp_path: Path
) -> None:
    folder = tmp_path / "wallet.payments"
    with Journal(folder) as journal:
        first = Visit(world, journal=journal)
        first.street.refusing = httpx.Response(429, headers={"Retry-After": "3600"}, json={})
        with pytest.raises(PendingError):
            await first.buy_credits()
    with Journal(folder) as journal:
        second = Visit(world, journal=journal)
        assert second.wallet.limit.spent == PRICE
        await second.buy_credits()
        journal.tidy()

    assert set(second.street.paid) == set(first.street.paid)
    assert world.received() == second.wallet.limit.spent == PRICE
    assert list(folder.iterdir()) == []


async def test_a_paid_purchase_is_completed_even_if_the_node_does_not_answer(
    world: World, tmp_path: Path
) -> None:
    with Journal(tmp_path) as journal:
        first = Visit(world, journal=journal)
        first.street.refusing = httpx.Response(429, headers={"Retry-After": "3600"}, json={})
        with pytest.raises(PendingError):
            await first.buy_credits()
    with Journal(tmp_path) as journal:
        second = Visit(world, journal=journal)
        second.street.is_node_away = True
        await second.buy_credits()

    assert set(second.street.paid) == set(first.street.paid)
    assert world.received() == second.wallet.limit.spent == PRICE
    assert len(second.street.of_node) == 1


def test_a_journal_outlives_its_process_and_has_one_user_at_a_time(tmp_path: Path) -> None:
    folder = tmp_path / "payments"
    with Journal(folder) as journal:
        journal.add(sent())
        (path,) = folder.iterdir()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        with Journal(folder) as other:  # while the first has it open
            assert list(other) == []
    with Journal(folder) as journal:
        assert list(journal) == [sent()]
        assert journal.adopt("GET elsewhere") is None
        assert journal.adopt(f"POST {PURCHASE}") == sent()
        assert journal.adopt(f"POST {PURCHASE}") is None  # a second request wants a second payment
        journal.finish(KEY)
        assert journal.find(KEY) is None
    with Journal(folder) as journal:  # without `tidy`, its item may not have been shown
        assert list(journal) == [sent()]
        journal.finish(KEY)
        journal.tidy()
    with Journal(folder) as journal:
        assert list(journal) == []


def test_a_journal_is_sorted_by_the_time_of_payment(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        for number, key in enumerate(("b" * 16, "a" * 16, "c" * 16)):
            journal.add(sent(key=key, amount=number + 1))
            newest = max(tmp_path.iterdir(), key=lambda path: path.stat().st_mtime_ns)
            os.utime(newest, (number, number))
        assert journal.atoms == 6
    with Journal(tmp_path) as journal:
        assert [each.key[0] for each in journal] == ["b", "a", "c"]


class Meeting(str):
    """A string whose comparison in one thread waits for a comparison in another thread."""

    __slots__ = ()
    __hash__ = str.__hash__
    meeting: ClassVar = Barrier(2, timeout=10)

    @override
    def __eq__(self, other: object) -> bool:
        self.meeting.wait()
        return str.__eq__(self, other)


def test_two_threads_do_not_adopt_the_same_payment(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        journal.add(sent())
    with Journal(tmp_path) as journal, ThreadPoolExecutor() as threads:
        adopted = list(threads.map(journal.adopt, [Meeting(f"POST {PURCHASE}")] * 2))

    assert sorted(each is None for each in adopted) == [False, True]


def test_an_unusable_journal_is_named_in_the_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(JournalUnusable, match="expected a folder for payments on their way"):
        Journal(tmp_path / "file")
    (tmp_path / "x.payment.json").write_text("{}")
    with pytest.raises(JournalUnusable, match="expected a payment in"):
        Journal(tmp_path)


def test_an_unusable_journal_leaves_its_payments_to_the_next_process(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        for number in range(3):
            journal.add(sent(key=f"{KEY}-{number}"))
    unreadable = tmp_path / "x.payment.json"
    unreadable.mkdir()
    with pytest.raises(JournalUnusable, match="Is a directory"):
        Journal(tmp_path)
    opened = [each.resolve() for each in Path("/proc/self/fd").iterdir()]
    assert [each for each in opened if tmp_path in each.parents] == []
    unreadable.rmdir()

    with Journal(tmp_path) as journal:
        assert len(list(journal)) == 3


async def test_a_payment_that_cannot_be_written_to_the_journal_is_not_sent(
    world: World, tmp_path: Path
) -> None:
    folder = tmp_path / "payments"
    visit = Visit(world, journal=Journal(folder))
    folder.rmdir()
    with pytest.raises(JournalUnusable):
        await visit.buy()

    assert visit.street.paid == []
    assert visit.wallet.limit.spent == 0


@pytest.fixture
def folders_that_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make `fsync` of a folder fail, as a broken disk does."""
    sync = os.fsync

    def fsync(file: int) -> None:
        if stat.S_ISDIR(os.fstat(file).st_mode):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        sync(file)

    monkeypatch.setattr(os, "fsync", fsync)


@pytest.mark.usefixtures("folders_that_fail")
async def test_a_payment_whose_folder_cannot_be_synced_is_neither_sent_nor_kept(
    world: World, tmp_path: Path
) -> None:
    folder = tmp_path / "payments"
    with Journal(folder) as journal:
        visit = Visit(world, journal=journal)
        with pytest.raises(JournalUnusable, match="Input/output error"):
            await visit.buy()

    assert (visit.street.paid, visit.wallet.limit.spent) == ([], 0)
    assert list(Journal(folder)) == []


def test_a_height_that_cannot_be_synced_leaves_the_payment_to_its_process(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    with Journal(tmp_path) as journal:
        journal.add(sent(last_valid_height=0))
        request.getfixturevalue("folders_that_fail")
        assert journal.bound(KEY, 7).last_valid_height == 7
        with Journal(tmp_path) as other:
            assert list(other) == []


async def test_a_payment_has_its_own_memo_if_the_seller_names_none(world: World) -> None:
    visit = Visit(world)
    required, offer = visit.wallet.choose((await visit.buy_nothing()).headers[PAYMENT_REQUIRED])
    offer.extra.pop("memo")
    blockhash = str(world.blockhash())
    assert visit.wallet.pay(required, offer, blockhash) != visit.wallet.pay(
        required, offer, blockhash
    )
    for memo in ("caf\u00e9", "a\nb", 7, "a" * 257):
        offer.extra["memo"] = memo
        with pytest.raises(WillNotPay, match="memo"):
            visit.wallet.pay(required, offer, blockhash)
