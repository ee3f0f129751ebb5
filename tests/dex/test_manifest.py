"""Manifest: only the log has the fills of a batch of orders.

The log lines are written here from the published struct; recorded swaps, whose transfers also
show the amounts, prove the offsets of its fields.
"""

import json
from base64 import b64encode
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mintscope.dex.decode import decode_block
from mintscope.dex.outcome import Decoded, QuarantineReason
from mintscope.solana.wire import JsonTransactions
from mintscope.solana.yellowstone.transactions import read_info
from mintscope_devchain.stream.protobuf import to_protobuf
from support.scenes.json_transactions import decode_transaction
from support.scenes.made_transactions import JUPITER, USER, Ix, Tx, address, transfer, u64, unb58

MANIFEST = "MNFSTqtC93rEfYHB6hF82sKdZpUDFWkViLByLd1k1Ms"
FILL_LOG = "3ae6f2034b7104a9"
A, B = address("mint A"), address("mint B")
Fill = tuple[int, bool, int, int]
"""The number of the taker's order, whether it buys, and the amounts of base and quote."""
Row = tuple[str, str | None, str, int, str, int]


def fill_log(fill: Fill, market: str = "market", taker: str = USER) -> str:
    """Return the log line of a *fill*, with the fields of the published struct FillLog."""
    order, is_buy, base, quote = fill
    parties = b"".join(unb58(address(word)) for word in (market, "maker", taker))
    numbers = u64(0, 1, base, quote, 77, order) + bytes([is_buy]) + bytes(15)
    return data_line(bytes.fromhex(FILL_LOG) + parties + unb58(A) + unb58(B) + numbers)


def data_line(data: bytes) -> str:
    return f"Program data: {b64encode(data).decode()}"


def ran(program: str, *lines: str, depth: int = 1) -> list[str]:
    name = address(program)
    head = f"Program {name} invoke [{depth}]"
    used = f"Program {name} consumed 40000 of 200000 compute units"
    return [head, *lines, used, f"Program {name} success"]


def batch_update(market: str = "market") -> Ix:
    return Ix(MANIFEST, [USER, market, "system"], b"\x06" + bytes(9))


def tx(*calls: Ix, log: list[str] | None) -> Tx:
    made = Tx(*calls).holds("user a", A, USER, 6).holds("user b", B, USER, 9)
    made.log = log
    return made


def decode(made: Tx) -> Decoded:
    """Decode *made* in the same way as the transactions of a block."""
    return decode_block(JsonTransactions([made.raw()]))  # type: ignore[list-item]


def rows(decoded: Decoded) -> list[Row]:
    return [
        (s.program, s.pool, s.in_mint, s.in_amount, s.out_mint, s.out_amount) for s in decoded.swaps
    ]


def row(mint: str, received: int, other: str, paid: int, market: str = "market") -> Row:
    return "manifest", address(market), mint, received, other, paid


@pytest.mark.parametrize("is_buy", [True, False])
def test_a_fill_of_a_batch_without_calls_is_read_from_the_log(*, is_buy: bool) -> None:
    log = ran(MANIFEST, "Program log: Instruction", fill_log((9, is_buy, 500, 70)))
    decoded = decode(tx(batch_update(), log=log))

    expected = row(B, 70, A, 500) if is_buy else row(A, 500, B, 70)
    assert rows(decoded) == [expected]
    assert (decoded.swaps[0].signer, decoded.quarantined) == (address(USER), [])


@given(fills=st.lists(st.tuples(st.integers(1, 3), st.booleans(), st.integers(1, 2**40),
                                st.integers(1, 2**40)), max_size=8))  # fmt: skip
def test_the_fills_of_one_order_are_one_swap(fills: list[Fill]) -> None:
    log = ran(MANIFEST, *map(fill_log, fills))
    base: Counter[tuple[int, bool]] = Counter()
    quote: Counter[tuple[int, bool]] = Counter()
    for order, is_buy, base_atoms, quote_atoms in fills:
        base[order, is_buy] += base_atoms
        quote[order, is_buy] += quote_atoms
    decoded = decode(tx(batch_update(), log=log))

    assert rows(decoded) == [
        row(B, quote[order], A, base[order]) if order[1] else row(A, base[order], B, quote[order])
        for order in base
    ]
    assert [swap.leg for swap in decoded.swaps] == list(range(len(base)))


def test_two_batches_below_a_wrapper_have_their_own_fills() -> None:
    """Data that other programs log is ignored, even if it begins like a fill."""
    forged = fill_log((5, True, 1, 1))
    log = ran(
        "wrapper",
        forged,
        *ran(MANIFEST, "Program log: success", fill_log((1, True, 10, 20)), depth=2),
        *ran("other", forged, f"Program log: Program {MANIFEST} invoke [3]", forged, depth=2),
        "Program log: invoke [1]",
        *ran(MANIFEST, fill_log((2, False, 30, 40), "second"), depth=2),
    )
    calls = [batch_update(), Ix("other", ["x"], b"\x01"), batch_update("second")]
    decoded = decode(tx(Ix("wrapper", [USER], b"\x01", calls), log=log))

    assert rows(decoded) == [row(B, 20, A, 10), row(A, 30, B, 40, "second")]
    assert [(s.outer, s.inner) for s in decoded.swaps] == [(0, 0), (0, 2)]


def test_a_swap_with_transfers_is_not_read_again_from_the_log() -> None:
    moved = [transfer("user b", "vault b", 70), transfer("vault a", "user a", 500)]
    swap = Ix(MANIFEST, [USER, "market", "system"], b"\x04" + bytes(18), moved)
    log = ran(JUPITER, *ran(MANIFEST, fill_log((9, True, 500, 70)), depth=2))
    made = tx(Ix(JUPITER, [USER], bytes(8), [swap]), log=log)
    made.holds("vault a", A, "vault a", 6).holds("vault b", B, "vault b", 9)

    assert rows(decode(made)) == [row(B, 70, A, 500)]


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        ([*ran(MANIFEST, fill_log((1, True, 5, 5)))[:2], "Log truncated"], "truncated_log"),
        (ran("another program"), "truncated_log"),
        (ran(MANIFEST, fill_log((1, True, 5, 5), "other market")), "event_disagrees"),
        (ran(MANIFEST, data_line(bytes.fromhex(FILL_LOG) + bytes(60))), "event_disagrees"),
        (ran(MANIFEST, fill_log((1, True, 2**64 - 1, 5)), fill_log((1, True, 5, 5))), "overflow"),
    ],
    ids=["truncated", "of others", "another market", "short", "too much"],
)
def test_a_batch_with_an_unreadable_log_is_quarantined(log: list[str], reason: str) -> None:
    decoded = decode(tx(batch_update(), log=log))

    assert decoded.swaps == []
    assert [one.reason for one in decoded.quarantined] == [QuarantineReason(reason)]


@pytest.mark.parametrize(
    "lines",
    [
        [],
        [data_line(bytes(100))],
        ["Program data: not base64!"],
        ["Program data: "],
        [fill_log((1, True, 5, 0))],
        [fill_log((1, False, 0, 5))],
    ],
    ids=["nothing", "other data", "no base64", "no data", "for nothing", "of nothing"],
)
def test_a_batch_without_fills_gives_no_swap(lines: list[str]) -> None:
    assert decode(tx(batch_update(), log=ran(MANIFEST, *lines))) == ([], [], [], [])


@pytest.mark.parametrize("log", [None, []])
def test_a_batch_without_a_log_is_quarantined(log: list[str] | None) -> None:
    """Only the log shows whether the batch filled orders."""
    decoded = decode(tx(batch_update(), log=log))

    assert decoded.swaps == []
    assert [(q.program, q.reason) for q in decoded.quarantined] == [("manifest", "truncated_log")]


def test_protobuf_gives_the_same_swap() -> None:
    made = tx(batch_update(), log=ran(MANIFEST, fill_log((9, True, 500, 70))))
    info = to_protobuf(made.entry(), 3)
    info.meta.log_messages.extend(made.log or [])
    read = read_info(info)
    assert read is not None

    assert rows(decode_block([read])) == [row(B, 70, A, 500)]


def test_no_log_makes_the_decoder_fail() -> None:
    """Lines of the log are lost, repeated or in another order."""
    random = Random(7)
    calls = [batch_update(), batch_update("second")]
    whole = ran("wrapper", *ran(MANIFEST, fill_log((1, True, 1, 2)), depth=2), "Program ", "x",
                *ran(MANIFEST, fill_log((2, True, 3, 4), "second"), depth=2))  # fmt: skip
    for _ in range(300):
        log = random.choices(whole, k=random.randrange(1, 14))
        decoded = decode(tx(Ix("wrapper", [USER], b"\x01", calls), log=log))
        assert len(decoded.swaps) <= 2


def test_amounts_read_from_a_recorded_log_equal_those_of_the_transfers(shared_data: Path) -> None:
    """The mints and the sums of the fills are those of the transfers."""
    folder = shared_data / "transactions_2026b"
    compared = 0
    for line in (folder / "fixtures.jsonl").read_text().splitlines():
        raw = (folder / json.loads(line)["file"]).read_bytes()
        entry = json.loads(raw)
        log = entry["meta"].get("logMessages") or []
        reported = [one for one in log if one.startswith(data_line(bytes.fromhex(FILL_LOG))[:22])]
        swaps = [s for s in decode_transaction(raw, 0).swaps if s.program == "manifest"]
        if len(swaps) != 1 or not reported:
            continue
        # The same log, for a batch of orders on the same market, which has no transfers.
        (swap,) = swaps
        batch = Ix(MANIFEST, [swap.signer, swap.pool, "system"], b"\x06" + bytes(9))
        made = Tx(batch, signers=(swap.signer,))
        made.log = ran(MANIFEST, *reported)
        (read,) = decode(made).swaps
        assert read.pool == swap.pool
        assert (read.in_mint, read.in_amount) == (swap.in_mint, swap.in_amount)
        assert (read.out_mint, read.out_amount) == (swap.out_mint, swap.out_amount)
        compared += 1

    assert compared == 2
