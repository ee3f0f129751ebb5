"""Batches of the token programs, written from the documented layout or drawn at random.

The layout is ff, then for each instruction (number of accounts u8, length of data u8, data); the
accounts follow one another.
"""

import copy
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mintscope.dex import batch as batches
from mintscope.dex.base58 import data_of
from mintscope.dex.outcome import Decoded, QuarantineReason, Unreadable
from mintscope.solana.transaction import Instruction
from support.scenes.json_transactions import decode_transaction
from support.scenes.made_transactions import (
    JUPITER,
    SELF_CALL,
    SPL,
    SPL_2022,
    USER,
    WSOL,
    Ix,
    Tx,
    address,
    b58,
    batch,
    checked,
    event,
    lamports,
    transfer,
    u64,
    unb58,
    with_fee,
)

RAYDIUM_V4 = "675kPX9MHTjS2zt1qfr1NYHuzeLXfQM9H24wFSUt1Mp8"
AUTHORITY = "5Q544fKrFoe6tsEbD7S8EmxGTJYAKtTVhAW5Q5pge4j1"
PUMPFUN = "6EF8rrecthR5Dkzon8Nwu78hRvfCKubJ14M5uBEwF6P"
SOLFI = "SoLFiHG9TfgtdUXUjWAxi3LtvYuFyDLVhBWxdMZxyCe"
A, B = address("mint A"), address("mint B")
EXCHANGE = (transfer("user a", "vault a", 100), checked("vault b", B, "user b", 70, 9))


def instruction(data: bytes, accounts: list[int], *, is_text: bool = True) -> Instruction:
    return Instruction(accounts, b58(data) if is_text else data, 9, 3)


def opened(data: bytes, accounts: list[int]) -> list[tuple[list[int], bytes]]:
    """Return the accounts and data of each instruction of the batch in *data*.

    The result must be the same for data as text and as bytes.
    """
    found = []
    for is_text in (True, False):
        expanded = batches.expand([instruction(data, accounts, is_text=is_text)], {})
        assert {(one.program_id_index, one.stack_height) for one in expanded} <= {(9, 3)}
        found.append([(list(one.accounts), data_of(one)) for one in expanded])
    assert found[0] == found[1]
    return found[0]


def raydium(*calls: Ix) -> Tx:
    accounts = ["spl", "amm", AUTHORITY, "vault a", "vault b"]
    tx = Tx(Ix(RAYDIUM_V4, accounts, b"\x09" + bytes(16), list(calls)))
    tx.holds("user a", A, USER).holds("user b", B, USER, 9)
    return tx.holds("vault a", A, AUTHORITY).holds("vault b", B, AUTHORITY, 9)


def decode(tx: Tx) -> Decoded:
    return decode_transaction(tx.raw(), 0)


# --- the layout ------------------------------------------------------------------------------


def test_a_batch_of_two_transfers_is_expanded() -> None:
    data = bytes.fromhex("ff 0309 03 6400000000000000 040a 0c 4600000000000000 09")

    assert opened(data, [5, 6, 7, 8, 1, 2, 7]) == [
        ([5, 6, 7], bytes.fromhex("03 6400000000000000")),
        ([8, 1, 2, 7], bytes.fromhex("0c 4600000000000000 09")),
    ]


def test_a_nested_batch_takes_its_accounts_from_the_outer_batch() -> None:
    """The batch is close, [sync, [close, close]], sync; brackets are nested batches."""
    inner = bytes.fromhex("ff 0301 09 0301 09")
    middle = bytes.fromhex("ff 0101 11") + bytes([6, len(inner)]) + inner
    data = bytes.fromhex("ff 0301 09") + bytes([7, len(middle)]) + middle + bytes.fromhex("0101 11")

    assert opened(data, list(range(11))) == [
        ([0, 1, 2], b"\x09"),
        ([3], b"\x11"),
        ([4, 5, 6], b"\x09"),
        ([7, 8, 9], b"\x09"),
        ([10], b"\x11"),
    ]


def test_a_batch_may_be_nested_85_deep() -> None:
    # Each level adds three bytes, and the length of an instruction has one byte.
    data, depth = b"\xff\x01\x01\x11", 1
    while len(data) <= 255:
        data, depth = b"\xff\x01" + bytes([len(data)]) + data, depth + 1

    assert depth == 85
    assert opened(data, [4]) == [([4], b"\x11")]


def test_a_batch_may_have_at_most_1_000_instructions() -> None:
    assert len(opened(b"\xff" + bytes.fromhex("0001 11") * 1_000, [])) == 1_000
    with pytest.raises(Unreadable):
        batches.expand(
            [instruction(b"\xff" + bytes.fromhex("0001 11") * 1_001, [], is_text=False)], {}
        )


def test_surplus_accounts_of_a_batch_are_ignored() -> None:
    assert opened(bytes.fromhex("ff 0101 11"), [4, 5, 6]) == [([4], b"\x11")]


MALFORMED = {
    "empty": "ff",
    "half a header": "ff 03",
    "a header alone": "ff 0301",
    "no data": "ff 0300",
    "data cut short": "ff 0309 03 64000000000000",
    "more accounts than given": "ff 0401 09",
    "more accounts in all": "ff 0301 09 0101 11",
    "a trailing byte": "ff 0301 09 00",
    "trailing zeros": "ff 0301 09 0000",
    "empty inside": "ff 0001 ff",
    "cut short inside": "ff 0303 ff 03 01",
    "more accounts inside": "ff 0204 ff 03 01 09",
}


@pytest.mark.parametrize("case", MALFORMED)
def test_a_malformed_batch_is_quarantined_with_its_reason(case: str) -> None:
    data = bytes.fromhex(MALFORMED[case])
    for is_text in (True, False):
        with pytest.raises(Unreadable) as raised:
            batches.expand([instruction(data, [1, 2, 3], is_text=is_text)], {})
        assert raised.value.reason is QuarantineReason.MALFORMED_BATCH

    bad = Ix(SPL, ["user a", "vault a", "user"], data)
    decoded = decode(raydium(*EXCHANGE, bad))
    assert decoded.swaps == []
    assert [(q.program, q.reason) for q in decoded.quarantined] == [
        ("raydium_v4", QuarantineReason.MALFORMED_BATCH)
    ]


def test_a_malformed_batch_elsewhere_hides_no_swap() -> None:
    tx = raydium(*EXCHANGE)
    tx.calls.append(Ix(SPL, ["user a"], b"\xff\x07"))
    tx.signers = (USER, "second")

    assert [(s.in_amount, s.out_amount) for s in decode(tx).swaps] == [(100, 70)]


def test_a_closed_program_with_only_a_malformed_batch_is_quarantined() -> None:
    call = Ix(SOLFI, ["x", "owner"], b"\x07", [Ix(SPL, ["a", "b"], b"\xff\x03\x09\x03")])

    assert [q.reason for q in decode(Tx(call)).quarantined] == [QuarantineReason.MALFORMED_BATCH]


@settings(max_examples=300, deadline=None, derandomize=True)
@given(tail=st.binary(max_size=300), accounts=st.lists(st.integers(0, 255), max_size=30))
def test_any_bytes_after_ff_are_expanded_or_unreadable(tail: bytes, accounts: list[int]) -> None:
    for is_text in (True, False):
        whole = instruction(b"\xff" + tail, accounts, is_text=is_text)
        with suppress(Unreadable):
            found = batches.expand([whole], {})
            assert 0 < len(found) <= len(tail) // 3
            taken = [account for one in found for account in one.accounts]
            assert taken == accounts[: len(taken)]


@settings(max_examples=150, deadline=None, derandomize=True)
@given(tail=st.binary(max_size=60), where=st.sampled_from(["inside", "beside"]))
def test_any_bytes_after_ff_give_one_swap_or_one_quarantined_call(tail: bytes, where: str) -> None:
    odd = Ix(SPL_2022, ["user a", "vault a", "x", USER], b"\xff" + tail)
    tx = raydium(*EXCHANGE, *([odd] if where == "inside" else []))
    tx.signers = (USER, "second")
    if where == "beside":
        tx.calls.append(odd)
    decoded = decode(tx)

    assert len(decoded.swaps) + len(decoded.quarantined) == 1
    if where == "beside":
        assert len(decoded.swaps) == 1


def test_text_that_is_not_base58_gives_the_reason_bad_base58() -> None:
    with pytest.raises(Unreadable) as raised:
        batches.expand([Instruction([], "5O0l", 0)], {})
    assert raised.value.reason is QuarantineReason.BAD_BASE58

    whole = Instruction([], "5O0l", 0)
    assert batches.expand_readable([whole], {}) == [whole]


def test_a_list_without_a_batch_is_not_copied() -> None:
    tokens = [instruction(b"\x03" + bytes(8), [1, 2, 3])]

    assert batches.expand(tokens, {}) is tokens


# --- what reads tokens sees the inner ones ---------------------------------------------------


@pytest.mark.parametrize("program", [SPL, SPL_2022])
@pytest.mark.parametrize("router", [False, True])
def test_a_swap_in_one_batch_is_read(program: str, router: bool) -> None:  # noqa: FBT001
    tx = raydium(batch(*EXCHANGE, program=program))
    if router:
        tx.calls = [Ix(JUPITER, ["x"], bytes(8), tx.calls)]
    (swap,) = decode(tx).swaps

    assert (swap.in_mint, swap.in_amount, swap.out_mint, swap.out_amount) == (A, 100, B, 70)


@pytest.mark.parametrize("program", [SPL, SPL_2022])
def test_an_unlisted_program_that_moves_all_in_one_batch_is_recognised(program: str) -> None:
    tx = raydium(batch(*EXCHANGE, program=program))
    tx.calls = [Ix("an amm", ["x"], b"\x07", tx.calls[0].calls)]
    (swap,) = decode(tx).swaps

    assert (swap.program, swap.in_amount, swap.out_amount) == (address("an amm"), 100, 70)


@pytest.mark.parametrize("is_routed", [False, True])
def test_a_malformed_batch_of_an_unlisted_program_is_quarantined(is_routed: bool) -> None:  # noqa: FBT001
    call = Ix("an amm", ["x"], b"\x07", [Ix(SPL, ["user a", "vault a"], b"\xff\x03\x09\x03")])
    tx = raydium()
    tx.calls = [Ix(JUPITER, ["x"], bytes(8), [call]) if is_routed else call, Ix("x", [], b"")]
    tx.calls[-1].accounts = ["user a", "user b"]

    assert [(q.program, q.reason) for q in decode(tx).quarantined] == [
        (address("an amm"), QuarantineReason.MALFORMED_BATCH)
    ]


def test_the_mint_of_an_account_opened_in_a_batch_is_known() -> None:
    """The batch is at the top, beside the swap; neither side of the transfer has a balance."""
    tx = raydium(transfer("temporary", "unlisted vault", 100), EXCHANGE[1])
    tx.calls.insert(0, batch(Ix(SPL, ["temporary", WSOL, USER, "rent"], b"\x01")))
    (swap,) = decode(tx.holds("unlisted vault", WSOL, AUTHORITY)).swaps
    assert (swap.in_mint, swap.in_amount) == (WSOL, 100)

    whirlpool = "whirLbMiicVdio4qvUfM5KAg6Ct8VwpYzGff3uctyCc"
    moved = [batch(transfer("temporary", "unlisted vault", 100), EXCHANGE[1])]
    accounts = ["spl", USER, "unlisted vault"]
    call = Ix(whirlpool, accounts, bytes.fromhex("f8c69e91e17587c8") + bytes(34), moved)
    for opening in (
        Ix(SPL, ["temporary", WSOL, USER, "rent"], b"\x01"),
        Ix(SPL, ["temporary", WSOL], b"\x12" + unb58(address(USER))),
    ):
        tx = Tx(batch(Ix(SPL, ["x"], b"\x11"), batch(opening)), call)
        tx.holds("user b", B, USER).holds("vault b", B, "unlisted vault")
        (swap,) = decode(tx).swaps
        assert (swap.in_mint, swap.in_amount, swap.out_amount) == (WSOL, 100, 70)


@pytest.mark.parametrize("kind", [7, 8, 14, 15])
def test_a_call_with_a_mint_or_burn_in_a_batch_is_no_swap(kind: int) -> None:
    supply = Ix(SPL, ["lp", "user lp", "owner"], bytes([kind]) + u64(1))
    call = Ix(SOLFI, ["x", "owner"], b"\x07", [batch(*EXCHANGE, supply)])
    tx = raydium()
    tx.calls = [call]
    tx.holds("vault a", A, "owner").holds("vault b", B, "owner")

    assert decode(tx) == ([], [], [], [])
    call.calls = [batch(*EXCHANGE)]
    assert len(decode(tx).swaps) == 1


def test_decimals_of_a_checked_transfer_in_a_batch_are_read() -> None:
    moved = (checked("user a", A, "vault a", 9, 255), checked("vault b", B, "user b", 8, 3))
    tx = raydium(batch(*moved))
    tx.balances.clear()
    tx.holds("vault a", address("C"), AUTHORITY).holds("vault b", address("C"), AUTHORITY)
    (swap,) = decode(tx).swaps

    assert (swap.in_decimals, swap.out_decimals) == (255, 3)


@pytest.mark.parametrize("moved", [400, 399])
def test_a_pumpfun_event_is_compared_with_the_transfer_in_a_batch(moved: int) -> None:
    fields = unb58(A) + u64(9, 400) + b"\x01"
    reported = event(PUMPFUN, SELF_CALL + bytes.fromhex("bddb7fd34ee661ee") + fields)
    names = ["global", "fee", A, "curve", "curve tokens", "user tokens", USER]
    calls = [
        lamports(USER, "curve", 9),
        batch(transfer("curve tokens", "user tokens", moved)),
        reported,
    ]
    decoded = decode(Tx(Ix(PUMPFUN, names, bytes.fromhex("66063d1201daebea"), calls)))

    assert len(decoded.swaps) == (moved == 400)
    assert [q.reason for q in decoded.quarantined] == (
        [] if moved == 400 else [QuarantineReason.EVENT_DISAGREES]
    )


def test_a_fee_named_in_a_batch_is_subtracted() -> None:
    tx = raydium(batch(with_fee("user a", A, "vault a", 100, 4), program=SPL_2022), EXCHANGE[1])

    assert [s.in_amount for s in decode(tx).swaps] == [96]
    tx.holds("vault a", A, AUTHORITY, before=7, after=7 + 95)
    assert [s.in_amount for s in decode(tx).swaps] == [95]


# --- however they are batched ----------------------------------------------------------------

Moves = list[Ix]


@st.composite
def transfers(draw: st.DrawFn) -> Moves:
    """Draw transfers of every kind among the accounts of a pool and its user, in any order."""
    pairs = [("user a", "vault a", A), ("vault b", "user b", B), ("vault a", "fee a", A)]
    found = []
    for _ in range(draw(st.integers(1, 6))):
        source, target, mint = draw(st.sampled_from(pairs))
        amount = draw(st.integers(0, 2**62))
        kind = draw(st.sampled_from(["plain", "checked", "fee", "close", "sync"]))
        if kind == "plain":
            found.append(transfer(source, target, amount))
        elif kind == "checked":
            found.append(checked(source, mint, target, amount))
        elif kind == "fee":
            found.append(with_fee(source, mint, target, amount, amount // 50))
        elif kind == "close":
            found.append(Ix(SPL, ["user c", USER, USER], b"\x09"))
        else:
            found.append(Ix(SPL, ["user c"], b"\x11"))
    return found


@st.composite
def batched(draw: st.DrawFn, moved: Moves) -> Moves:
    """Draw a copy of the instructions *moved*, with some put into batches, which may be nested."""
    found = [copy.deepcopy(one) for one in moved]
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(found) - 1))
        end = draw(st.integers(start + 1, len(found)))
        inside = found[start:end]
        if all(len(one.data) <= 255 for one in inside):
            found[start:end] = [batch(*inside, program=inside[0].program)]
    return found


@settings(max_examples=300, deadline=None, derandomize=True)
@given(data=st.data())
def test_batching_does_not_change_the_decoded_transaction(data: st.DataObject) -> None:
    """This holds at any nesting, in both token programs, and beside other transfers."""
    program = data.draw(st.sampled_from([SPL, SPL_2022]))
    moved = [Ix(program, one.accounts, one.data) for one in data.draw(transfers())]
    owner = data.draw(st.sampled_from([RAYDIUM_V4, SOLFI]))

    def decoded(calls: Moves) -> Any:
        accounts = ["spl", AUTHORITY if owner == SOLFI else "amm", AUTHORITY]
        tx = Tx(Ix(owner, accounts, b"\x09" + bytes(16), calls), signers=(USER, "second"))
        for account, mint, holder in (
            ("user a", A, USER),
            ("user b", B, USER),
            ("vault a", A, AUTHORITY),
            ("vault b", B, AUTHORITY),
            ("user c", WSOL, USER),
            ("fee a", A, "fees"),
        ):
            tx.holds(account, mint, holder, before=5, after=5)
        return decode(tx)

    assert decoded(data.draw(batched(moved))) == decoded(moved)
