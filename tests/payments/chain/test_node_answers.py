"""The settlement reads the answers of a node, each in the form that Solana documents."""

import asyncio
import base64
from collections.abc import Callable
from typing import Any, Final, cast

import httpx
import msgspec
import pytest
from solders.signature import Signature as Ed25519
from solders.transaction import VersionedTransaction

from mintscope.kit.clock import ManualClock
from mintscope.kit.primitives import Signature, UnixMs
from mintscope.payments.audit import Arrivals
from mintscope.payments.node import ANSWER_BYTES_MAX, PAGE
from mintscope.payments.payment import Landed, Reverted, Sighting, UnreadablePayment, Unseen
from mintscope.payments.ports import (
    ChainUnavailable,
    Rejected,
    Simulated,
    Trial,
    UnknownBlockhash,
)
from mintscope.payments.protocol.envelope import Envelope, Signed, open_envelope
from mintscope.payments.settlement import AUDITS_AT_ONCE, POLL_S, RpcSettlement
from mintscope.solana.blocks import Endpoint
from mintscope.solana.pace import Pace
from support.scenes.payments.payment_build import FEE_PAYER, MINT, PAYER, TERMS, Recipe

SIGNATURE: Final = Signature("s" * 88)
TREASURY: Final = str(TERMS.treasury)
FINALIZED_HEIGHT: Final = 900
FINALIZED_SLOT: Final = 1_000
CONFIRMED_HEIGHT: Final = 931
CONFIRMED_SLOT: Final = 1_032
TIPS: Final = {
    "finalized": {"absoluteSlot": FINALIZED_SLOT, "blockHeight": FINALIZED_HEIGHT, "epoch": 2},
    "confirmed": {"absoluteSlot": CONFIRMED_SLOT, "blockHeight": CONFIRMED_HEIGHT, "epoch": 2},
}


def balance(index: int, amount: int, mint: str = MINT) -> dict[str, Any]:
    return {
        "accountIndex": index,
        "mint": mint,
        "owner": TERMS.pay_to,
        "uiTokenAmount": {"amount": str(amount), "decimals": 6, "uiAmount": None},
    }


def transaction(
    *,
    err: Any = None,
    pre: list[dict[str, Any]] | None = None,
    post: list[dict[str, Any]] | None = None,
    loaded: dict[str, list[str]] | None = None,
    fee_payer: str = TERMS.fee_payer,
) -> dict[str, Any]:
    static = [fee_payer, "payer", TREASURY, "other"]
    return {
        "slot": 1,
        "transaction": {"signatures": [SIGNATURE], "message": {"accountKeys": static}},
        "meta": {
            "err": err,
            "fee": 10_001,
            "preTokenBalances": [balance(2, 700)] if pre is None else pre,
            "postTokenBalances": [balance(2, 3_200)] if post is None else post,
            "loadedAddresses": loaded or {"writable": [], "readonly": []},
        },
    }


def status(commitment: str, err: Any = None) -> dict[str, Any]:
    return {"slot": 1, "confirmations": 1, "err": err, "confirmationStatus": commitment}


class Node:
    """A node with a fixed answer for each method; records the requests."""

    def __init__(self, **answers: Any) -> None:
        self.answers: dict[str, Any] = answers
        self.asked: list[tuple[str, list[Any]]] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        question = msgspec.json.decode(request.content)
        method, params = question["method"], question["params"]
        self.asked.append((method, params))
        answer = self.answers.get(method)
        if method == "getEpochInfo" and answer is None:
            answer = TIPS[params[0]["commitment"]]
        if callable(answer):
            answer = answer(params)
        if isinstance(answer, httpx.Response):
            return answer
        if isinstance(answer, dict) and "code" in answer:
            return httpx.Response(200, json={"jsonrpc": "2.0", "id": 1, "error": answer})
        return httpx.Response(200, json={"jsonrpc": "2.0", "id": 1, "result": answer})


def chain(node: Callable[[httpx.Request], httpx.Response]) -> RpcSettlement:
    return RpcSettlement(
        Endpoint(url="http://node/"),
        terms=[TERMS],
        clock=ManualClock(UnixMs(0)),
        pace=lambda: Pace(0.2, 60),
        transport=httpx.MockTransport(node),
        sleep=lambda seconds: asyncio.sleep(min(seconds, POLL_S)),
    )


def statuses(*values: Any, slot: int = FINALIZED_SLOT) -> dict[str, Any]:
    return {"context": {"slot": slot}, "value": list(values)}


LOOKS: Final[list[tuple[Any, Any, Sighting]]] = [
    (None, None, Unseen(height=FINALIZED_HEIGHT)),
    (status("processed"), transaction(), Unseen()),
    (status("processed", err={"InstructionError": [2, "x"]}), None, Unseen()),
    (status("confirmed"), transaction(), Landed(paid=2_500, final=False)),
    (status("finalized"), transaction(), Landed(paid=2_500, final=True)),
    (status("confirmed", err="AccountNotFound"), transaction(), Reverted(final=False)),
    (status("finalized", err={"InstructionError": [2, {"Custom": 1}]}), None, Reverted(final=True)),
    (status("confirmed"), transaction(err="AccountNotFound"), Reverted(final=False)),
    (status("confirmed"), None, Unseen()),
    (status("confirmed"), transaction(post=[]), Landed(paid=-700, final=False)),
    (status("confirmed"), transaction(pre=[]), Landed(paid=3_200, final=False)),
    (
        status("confirmed"),
        transaction(pre=[balance(2, 2**63)], post=[balance(2, 2**63 + 700)]),
        Landed(paid=700, final=False),
    ),
    (
        status("confirmed"),
        transaction(post=[balance(2, 700), balance(3, 9_000)]),
        Landed(paid=0, final=False),
    ),
    (
        status("confirmed"),
        transaction(post=[balance(2, 9_000, mint="another"), balance(2, 701)]),
        Landed(paid=1, final=False),
    ),
    (
        status("confirmed"),
        transaction(pre=[], post=[balance(99, 9_000)]),
        Landed(paid=0, final=False),
    ),
    (
        status("confirmed"),
        transaction(
            pre=[], post=[balance(5, 40)], loaded={"writable": ["x"], "readonly": [TREASURY]}
        ),
        Landed(paid=40, final=False),
    ),
]


@pytest.mark.parametrize(("status_", "found", "sighting"), LOOKS)
async def test_a_look_returns_the_outcome_of_a_payment(
    status_: Any, found: Any, sighting: Sighting
) -> None:
    node = Node(getSignatureStatuses=statuses(status_), getTransaction=found)
    async with chain(node) as settlement:
        assert list(await settlement.look([SIGNATURE])) == [sighting]


async def test_a_look_reads_the_final_height_before_the_statuses() -> None:
    """A missing status proves that a payment expired only if the height was read before it."""
    node = Node(getSignatureStatuses=statuses(None))
    async with chain(node) as settlement:
        await settlement.look([SIGNATURE])

    assert node.asked == [
        ("getEpochInfo", [{"commitment": "finalized"}]),
        ("getSignatureStatuses", [[SIGNATURE], {"searchTransactionHistory": True}]),
    ]


async def test_a_missing_status_proves_nothing_if_the_node_is_behind() -> None:
    """A node that is a slot behind the node that gave the height may not have seen the payment."""
    node = Node(getSignatureStatuses=statuses(None, slot=FINALIZED_SLOT - 1))
    async with chain(node) as settlement:
        assert list(await settlement.look([SIGNATURE])) == [Unseen()]
    node = Node(getSignatureStatuses=statuses(status("finalized"), slot=FINALIZED_SLOT - 1))
    node.answers["getTransaction"] = transaction()
    async with chain(node) as settlement:
        assert list(await settlement.look([SIGNATURE])) == [Landed(paid=2_500, final=True)]


@pytest.mark.parametrize(
    ("status_", "found", "sighting"),
    [
        (status("confirmed"), transaction(), Landed(paid=2_500, final=False)),
        (status("processed"), transaction(), Landed(paid=2_500, final=False)),
        (status("confirmed", err="AccountNotFound"), transaction(), Reverted(final=False)),
        (status("confirmed"), transaction(err="AccountNotFound"), Reverted(final=False)),
        (status("processed", err="AccountNotFound"), None, Unseen()),
        (status("confirmed"), None, Unseen()),
        (None, None, Unseen()),
    ],
)
async def test_a_wait_returns_the_outcome_of_a_payment(
    status_: Any, found: Any, sighting: Sighting
) -> None:
    """A transaction that `getTransaction` returns is confirmed, even if its status is not."""
    node = Node(getSignatureStatuses=statuses(status_), getTransaction=found)
    # Only a wait for an unseen payment lasts until its patience ends.
    patience_s = 0.15 if sighting == Unseen() else 60.0
    async with chain(node) as settlement:
        assert await settlement.wait(SIGNATURE, patience_s=patience_s) == sighting


async def test_simultaneous_waits_share_requests_and_each_ends_after_its_own_time() -> None:
    """The transactions are confirmed only after the short wait has ended."""
    other = Signature("t" * 88)
    waits: list[asyncio.Task[Sighting]] = []

    def answer(params: list[Any]) -> dict[str, Any]:
        is_due = waits[0].done()
        return statuses(*(status("confirmed") if is_due else None for _ in params[0]))

    node = Node(getSignatureStatuses=answer, getTransaction=transaction())
    async with chain(node) as settlement:
        for signature, patience_s in ((SIGNATURE, 0.01), (SIGNATURE, 5.0), (other, 5.0)):
            wait = settlement.wait(signature, patience_s=patience_s)
            waits.append(asyncio.create_task(wait))
        ended = await asyncio.gather(*waits)
        later = await settlement.wait(SIGNATURE, patience_s=5.0)

    landed = Landed(paid=2_500, final=False)
    assert [*ended, later] == [Unseen(), landed, landed, landed]
    asked = [params[0] for method, params in node.asked if method == "getSignatureStatuses"]
    assert asked[0] == [SIGNATURE, other]
    assert all(len(each) == len({*each}) for each in asked)


def envelope() -> Envelope:
    opened = open_envelope(Recipe(amount=1, memo=b"m").build())
    assert isinstance(opened, Envelope)
    return opened


def payment() -> Signed:
    return envelope().sign(FEE_PAYER)


def simulated(
    err: Any, accounts: list[Any] | None, *, slot: int = CONFIRMED_SLOT
) -> dict[str, Any]:
    return {"context": {"slot": slot}, "value": {"err": err, "logs": [], "accounts": accounts}}


def holding(amount: int) -> dict[str, Any]:
    data = bytes(64) + amount.to_bytes(8, "little") + bytes(93)
    return {"data": [base64.b64encode(data).decode(), "base64"], "lamports": 1, "owner": "t"}


async def simulate(answer: Any) -> Trial:
    async with chain(Node(simulateTransaction=answer)) as settlement:
        return await settlement.simulate(envelope(), TERMS.token_account(PAYER.pubkey()))


async def test_a_simulation_succeeds_is_rejected_or_has_an_unknown_blockhash() -> None:
    assert await simulate(simulated(None, [holding(77)])) == Simulated(
        balance_after=77, last_valid_height=CONFIRMED_HEIGHT + 150
    )
    for answer in (
        simulated({"InstructionError": [2, {"Custom": 1}]}, None),
        simulated({"InsufficientFundsForRent": {"account_index": 1}}, None),
        simulated("AlreadyProcessed", None),
        simulated(None, [None]),
        simulated(None, None),
    ):
        assert isinstance(await simulate(answer), Rejected)
    assert isinstance(await simulate(simulated("BlockhashNotFound", None)), UnknownBlockhash)


async def test_a_payment_is_simulated_without_the_fee_payers_signature() -> None:
    node = Node(simulateTransaction=simulated(None, [holding(77)]))
    async with chain(node) as settlement:
        await settlement.simulate(envelope(), TERMS.token_account(PAYER.pubkey()))
    ((sent, options),) = (params for method, params in node.asked if "simulate" in method)
    shown = VersionedTransaction.from_bytes(base64.b64decode(sent))

    assert options["sigVerify"] is False
    assert shown.signatures[0] == Ed25519.default()
    assert shown.signatures[1] == envelope().payer_signature
    assert shown.message == envelope().message


# Errors that the payer did not cause: nothing was sent, and the client may send the same payment
# again.
NOT_THE_PAYERS: Final[list[Any]] = [
    simulated("InsufficientFundsForFee", None),
    simulated("AccountNotFound", None),
    simulated({"InsufficientFundsForRent": {"account_index": 0}}, None),
    {"code": -32602, "message": "invalid transaction: Transaction failed to sanitize"},
    {"code": -32016, "message": "Minimum context slot has not been reached"},
    {"code": -32005, "message": "Node is behind by 42 slots"},
    {"code": -32004, "message": "Block not available for slot 7"},
    {"code": -32003, "message": "Transaction signature verification failure"},
]


@pytest.mark.parametrize("answer", NOT_THE_PAYERS)
async def test_a_node_that_refuses_to_simulate_is_an_outage(answer: Any) -> None:
    with pytest.raises(ChainUnavailable, match="simulateTransaction"):
        await simulate(answer)


UNUSABLE: Final[dict[str, Any]] = {
    "a 500": httpx.Response(500),
    "a 429": httpx.Response(429, headers={"Retry-After": "1"}),
    "no JSON": httpx.Response(200, text="<html>"),
    "other JSON": httpx.Response(200, json=[1, 2]),
    "another shape": {"surprise": 1},
    "nothing": None,
    "busy": {"code": -32005, "message": "node is behind"},
    "too much": httpx.Response(200, content=b" " * (ANSWER_BYTES_MAX + 1)),
}


@pytest.mark.parametrize("name", UNUSABLE)
@pytest.mark.parametrize("method", ["simulateTransaction", "getEpochInfo", "sendTransaction"])
async def test_an_unusable_answer_is_an_outage(method: str, name: str) -> None:
    answers = {"simulateTransaction": simulated(None, [holding(7)]), "sendTransaction": "sig"}
    answer = UNUSABLE[name]
    if name == "nothing" and method == "getEpochInfo":
        answer = {"null": None}
    node = Node(**(answers | {method: answer}))
    async with chain(node) as settlement:
        asking = (
            settlement.broadcast(payment())
            if method == "sendTransaction"
            else settlement.simulate(envelope(), TERMS.treasury)
        )
        with pytest.raises(ChainUnavailable, match=method):
            await asking


async def test_simultaneous_payments_request_the_height_once() -> None:
    node = Node(simulateTransaction=simulated(None, [holding(77)]))
    async with chain(node) as settlement:
        await asyncio.gather(*(settlement.simulate(envelope(), TERMS.treasury) for _ in range(5)))

    assert [method for method, _ in node.asked].count("getEpochInfo") == 1


async def test_a_height_that_was_not_answered_is_requested_again() -> None:
    node = Node(simulateTransaction=simulated(None, [holding(77)]), getEpochInfo=busy())
    async with chain(node) as settlement:
        with pytest.raises(ChainUnavailable):
            await settlement.simulate(envelope(), TERMS.treasury)
        node.answers["getEpochInfo"] = TIPS["confirmed"]
        assert isinstance(await settlement.simulate(envelope(), TERMS.treasury), Simulated)


def busy() -> dict[str, Any]:
    return {"code": -32005, "message": "node is behind"}


class Closing:
    """A node that closes the connection *times* times before it answers."""

    def __init__(self, times: int) -> None:
        self.times = times
        self._node = Node(sendTransaction="sig")

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if self.times:
            self.times -= 1
            raise httpx.RemoteProtocolError("Server disconnected", request=request)
        return self._node(request)


async def test_a_closed_connection_is_an_outage_only_the_second_time() -> None:
    """A node may close an idle connection just when a request comes; the request is sent again."""
    for times, is_outage in ((1, False), (2, True)):
        closing = Closing(times)
        async with chain(closing) as settlement:
            if is_outage:
                with pytest.raises(ChainUnavailable, match="RemoteProtocolError"):
                    await settlement.broadcast(payment())
            else:
                await settlement.broadcast(payment())
        assert closing.times == 0


async def test_an_answer_with_too_few_statuses_is_an_outage() -> None:
    async with chain(Node(getSignatureStatuses=statuses(None))) as settlement:
        with pytest.raises(ChainUnavailable, match="expected 2 statuses; was 1"):
            await settlement.look([SIGNATURE, SIGNATURE])


async def test_an_outage_error_does_not_contain_the_key_in_the_node_address() -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("no route", request=request)

    settlement = RpcSettlement(
        Endpoint(url="http://node/?api-key=secret"),
        terms=[TERMS],
        clock=ManualClock(UnixMs(0)),
        pace=lambda: Pace(0.2, 60),
        transport=httpx.MockTransport(refuse),
    )
    with pytest.raises(ChainUnavailable) as outage:
        await settlement.broadcast(payment())
    await settlement.aclose()

    assert "secret" not in str(outage.value)


def pages(count: int) -> Callable[[list[Any]], list[dict[str, Any]]]:
    """Return a fake `getSignaturesForAddress` with *count* transactions, newest first.

    Every tenth transaction has failed.
    """
    history = [
        {"signature": f"s{n}", "err": "x" if n % 10 == 0 else None, "slot": n}
        for n in range(count, 0, -1)
    ]

    def answer(params: list[Any]) -> list[dict[str, Any]]:
        assert params[0] == TREASURY
        assert params[1]["commitment"] == "finalized"
        before = params[1].get("before")
        names = [each["signature"] for each in history]
        start = names.index(before) + 1 if before else 0
        return history[start : start + params[1]["limit"]]

    return answer


async def test_arrivals_are_read_in_pages_with_their_newest_and_oldest_signature() -> None:
    node = Node(getSignaturesForAddress=pages(PAGE + 1))
    async with chain(node) as settlement:
        first = await settlement.arrivals(after=None, before=None)
        second = await settlement.arrivals(after=None, before=first.oldest)
        third = await settlement.arrivals(after=None, before=second.oldest)

    assert list(first.succeeded) == [f"s{n}" for n in range(PAGE + 1, 1, -1) if n % 10]
    assert (first.newest, first.oldest) == (f"s{PAGE + 1}", "s2")
    only = Signature("s1")
    assert second == Arrivals(succeeded=[only], newest=only, oldest=only)
    assert third == Arrivals(succeeded=[], newest=None, oldest=None)


async def test_only_payments_with_the_fee_payer_of_the_service_are_sponsored() -> None:
    found: dict[str, Any] = {
        "ours": transaction(),
        "a gift": transaction(fee_payer="someone"),
        "the opening of the treasury": transaction(pre=[], post=[balance(2, 0)]),
        "unclear": transaction(post=[balance(2, 2**64)]),
        "gone": None,
        "odd": {},
    }
    node = Node(getTransaction=lambda params: found[params[0]])
    async with chain(node) as settlement:
        ours = await settlement.sponsored([Signature(name) for name in found])

    assert ours == {
        "ours": True,
        "a gift": False,
        "the opening of the treasury": False,
        "unclear": None,
        "gone": None,
        "odd": None,
    }


ODD: Final[list[Any]] = [
    transaction(post=[balance(2, 700) | {"uiTokenAmount": {"amount": "many"}}]),
    transaction(post=[balance(2, 700) | {"uiTokenAmount": {"amount": "1_000"}}]),
    transaction(pre=[], post=[balance(2, 2**63)]),
    transaction(pre=[balance(2, 2**64)], post=[balance(2, 2**64)]),
    transaction(post=[balance(2, 10**40)]),
    {"slot": 1},
    {"code": -32015, "message": "Transaction version (1) is not supported"},
]


@pytest.mark.parametrize("odd", ODD)
async def test_one_unreadable_answer_does_not_hide_the_others(odd: Any) -> None:
    good = Signature("t" * 88)
    node = Node(
        getSignatureStatuses=statuses(status("finalized"), status("finalized")),
        getTransaction=lambda params: odd if params[0] == SIGNATURE else transaction(),
    )
    async with chain(node) as settlement:
        unreadable, landed = await settlement.look([SIGNATURE, good])

    assert isinstance(unreadable, UnreadablePayment)
    assert unreadable.why
    assert landed == Landed(paid=2_500, final=True)


async def test_a_look_is_an_outage_only_if_every_transaction_fails() -> None:
    good = Signature("t" * 88)
    node = Node(
        getSignatureStatuses=statuses(status("finalized"), status("finalized")),
        getTransaction=lambda params: (
            httpx.Response(500) if params[0] == SIGNATURE else transaction()
        ),
    )
    async with chain(node) as settlement:
        assert await settlement.look([SIGNATURE, good]) == [
            Unseen(),
            Landed(paid=2_500, final=True),
        ]
        node.answers["getTransaction"] = httpx.Response(500)
        with pytest.raises(ChainUnavailable):
            await settlement.look([SIGNATURE, good])


async def test_one_arrival_without_an_answer_does_not_hide_the_others() -> None:
    """Anyone may send tiny payments, and a node may fail to answer a request about one."""
    node = Node(
        getTransaction=lambda params: (
            httpx.Response(429) if params[0] == SIGNATURE else transaction()
        )
    )
    async with chain(node) as settlement:
        reported = await settlement.sponsored([SIGNATURE, Signature("t" * 88)])
        with pytest.raises(ChainUnavailable):
            await settlement.sponsored([SIGNATURE])

    assert list(reported.values()) == [None, True]


async def test_an_audit_limits_its_simultaneous_requests() -> None:
    node, now, most = Node(getTransaction=transaction()), 0, 0

    async def slowly(request: httpx.Request) -> httpx.Response:
        nonlocal now, most
        now += 1
        most = max(most, now)
        for _ in range(10):  # so that every request that may begin meanwhile has begun
            await asyncio.sleep(0)
        now -= 1
        return node(request)

    async with chain(cast("Any", slowly)) as settlement:
        await settlement.sponsored([Signature(f"{n:088}") for n in range(100)])

    assert 1 < most <= AUDITS_AT_ONCE


async def test_refused_parameters_do_not_change_the_commitment_level() -> None:
    """A node gives this error code for an unknown level, but also for an unreadable transaction."""
    node = Node(
        getBalance={"code": -32602, "message": "Invalid params"},
        getSlot=CONFIRMED_SLOT,
    )
    async with chain(node) as settlement:
        with pytest.raises(ChainUnavailable, match="Invalid params"):
            await settlement.lamports(TERMS.pay_to)
        node.answers["getBalance"] = {"value": 7}
        assert await settlement.lamports(TERMS.pay_to) == 7

    asked = [method for method, _ in node.asked]
    assert asked == ["getBalance", "getSlot", "getBalance"]
    assert all(params[-1] == {"commitment": "confirmed"} for _, params in node.asked)


async def test_a_node_that_refuses_every_level_is_an_outage() -> None:
    refusal = {"code": -32602, "message": "Invalid params"}
    node = Node(getBalance=refusal, getSlot=refusal)
    async with chain(node) as settlement:
        for _ in range(2):
            with pytest.raises(ChainUnavailable, match="Invalid params"):
                await settlement.lamports(TERMS.pay_to)
    assert not any(
        "finalized" in str(params) for method, params in node.asked if method != "getSlot"
    )
