"""The fee of a swap of pump.fun or PumpSwap, compared with the amounts in its event.

The decoder adds up rates; the oracle divides amounts, and shares no code with it.
"""

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mintscope.dex.events import reported
from mintscope.dex.program import Call
from mintscope.dex.programs import TABLE
from mintscope.solana.transaction import Instruction
from support.scenes.json_transactions import decode_transaction
from support.scenes.made_transactions import SELF_CALL, unb58

FOLDERS = ("transactions", "transactions_2026", "transactions_2026b")
PUMPFUN = "6EF8rrecthR5Dkzon8Nwu78hRvfCKubJ14M5uBEwF6P"
PUMPSWAP = "pAMMBay6oceH9fJKBRHGP5D4bD4sWpmSwMn52FMfXEA"
TRADE = bytes.fromhex("bddb7fd34ee661ee")
BUY = bytes.fromhex("67f4521f2cf57777")
SELL = bytes.fromhex("3e2f370aa503dc2a")
SHORTEST = 217  # bytes of fields with the fee of the creator; older events of pump.fun have none


def u64(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "little")


def paid(data: bytes) -> tuple[int, int] | None:
    """Return the quote amount and the fee in the event of a swap; None if it lacks a fee.

    The quote amount includes the fee only in a sale.
    """
    fields = data[16:]
    if data[8:16] != TRADE:
        # quote_amount_in or _out, and user_quote_amount_in or _out: one is without all fees.
        quote, of_user = u64(fields, 56), u64(fields, 104)
        whole = quote if data[8:16] == SELL else min(quote, of_user)
        return whole, abs(quote - of_user)
    if len(fields) < SHORTEST:
        return None
    cashback = 0
    if len(fields) > 254:
        tail = fields[254 + int.from_bytes(fields[250:254], "little") :]
        cashback = u64(tail, 9)  # behind mayhem_mode and the rate
    return u64(fields, 32), u64(fields, 161) + u64(fields, 209) + cashback


def events_of(transaction: dict[str, Any]) -> Iterator[tuple[str, bytes]]:
    """Yield the swap events of pump.fun and PumpSwap in a recorded transaction, in order."""
    message = transaction["transaction"]["message"]
    meta = transaction["meta"]
    loaded = meta.get("loadedAddresses") or {}
    keys = [*message["accountKeys"], *loaded.get("writable", ()), *loaded.get("readonly", ())]
    for group in sorted(meta["innerInstructions"] or (), key=lambda one: one["index"]):
        for inner in group["instructions"]:
            program = keys[inner["programIdIndex"]]
            if program in {PUMPFUN, PUMPSWAP} and len(inner["data"]) > 100:
                data = unb58(inner["data"])
                if data[:8] == SELF_CALL and data[8:16] in {TRADE, BUY, SELL}:
                    yield ("pumpfun" if program == PUMPFUN else "pumpswap"), data


def agrees(fee_bps: int | None, data: bytes) -> bool:
    """Return whether *fee_bps* follows from the amounts in *data*, with up to three round-ups."""
    found = paid(data)
    if found is None or fee_bps is None:
        return found is None and fee_bps is None
    quote, fee = found
    return 0 <= fee * 10_000 - fee_bps * quote < 30_000


def test_the_fee_of_recorded_swaps_agrees_with_the_amounts_in_their_events(
    shared_data: Path,
) -> None:
    seen: dict[str, list[int | None]] = {"pumpfun": [], "pumpswap": []}
    for folder in FOLDERS:
        if not (shared_data / folder).is_dir():
            pytest.skip(f"the recorded transactions are not there: {folder}")
        for path in sorted((shared_data / folder / "tx").glob("*.json")):
            raw = path.read_bytes()
            if PUMPFUN.encode() not in raw and PUMPSWAP.encode() not in raw:
                continue
            events = [] if json.loads(raw)["meta"]["err"] else [*events_of(json.loads(raw))]
            swaps = [one for one in decode_transaction(raw, 0).swaps if one.program in seen]
            assert [one.program for one in swaps] == [name for name, _ in events], path
            for swap, (name, data) in zip(swaps, events, strict=True):
                assert agrees(swap.fee_bps, data), (path, swap.fee_bps, paid(data))
                seen[name].append(swap.fee_bps)
    # 95 of the protocol and 30 of cashback, 95 and 5, coins without fees, and events without them.
    assert {0, 100, 125, None} == set(seen["pumpfun"])
    # 20 + 5 + 5, 25 + 5, 20 + 5 + 95, 20 + 5 + 15, 2 + 93 + 30, 20 + 5 + 90, 20 + 5 + 30.
    assert set(seen["pumpswap"]) == {30, 120, 40, 125, 115, 55}


def call_of(name: str, data: bytes) -> Call:
    (program,) = [one for one in TABLE if one.name == name]
    return Call(program, Instruction([], b"", 0), 0, -1, events=[Instruction([], data, 0)])


def fee_of(call: Call) -> int | None:
    _, fee = reported(call)
    return fee


@pytest.fixture
def vectors(shared_data: Path) -> dict[str, dict[str, Any]]:
    """Return the published examples of events of pump.fun and PumpSwap, by name."""
    text = (shared_data / "events" / "event_vectors.jsonl").read_text()
    return {line["test"]: line for line in map(json.loads, text.splitlines())}


def test_a_fee_rate_without_an_amount_does_not_count(vectors: dict[str, dict[str, Any]]) -> None:
    """Neither pool has a creator, but both events have a creator rate of 5 basis points."""
    for name in ("unpack_buy_event_v2", "unpack_sell_event_v2"):
        one = vectors[name]
        fields = one["expected"]
        rates = [int(fields[f"{part}_fee_basis_points"]) for part in ("lp", "protocol")]
        assert (fields["coin_creator_fee_basis_points"], fields["coin_creator_fee"]) == ("5", "0")
        data = bytes.fromhex(one["hex"])
        assert fee_of(call_of("pumpswap", data)) == sum(rates) == 25
        assert agrees(25, data)


def test_the_fee_is_read_from_every_version_of_the_pumpfun_event(
    vectors: dict[str, dict[str, Any]],
) -> None:
    names = ("v0", "v1", "v2", "v3_sell", "v3_buy")
    found = []
    for name in names:
        data = bytes.fromhex(vectors[f"anchor_self_cpi_trade_{name}"]["hex"])
        found.append(fee_of(call_of("pumpfun", data)))
        assert agrees(found[-1], data)
    assert found == [None, None, 100, 125, 125]


RATES = {"pumpfun": {153: 95, 201: 3}, "pumpswap": {64: 20, 80: 5, 336: 3}}


def newest(name: str, discriminator: bytes, text: bytes) -> bytes:
    """Return an event in the newest layout of *name*, with RATES as fees and 7 bps cashback."""
    fields = bytearray(352 if name == "pumpswap" else 250)
    for at, rate in RATES[name].items():
        struct.pack_into("<QQ", fields, at, rate, 1)
    if discriminator == BUY:
        fields += bytes(41)
    if discriminator != SELL:
        fields += len(text).to_bytes(4, "little") + text
    if discriminator == TRADE:
        fields += b"\x01"
    return SELF_CALL + discriminator + bytes(fields) + struct.pack("<QQ", 7, 1)


@pytest.mark.parametrize(
    ("name", "discriminator", "fee"),
    [("pumpfun", TRADE, 105), ("pumpswap", BUY, 35), ("pumpswap", SELL, 35)],
    ids=["trade", "buy", "sell"],
)
def test_a_truncated_event_gives_no_fee_or_the_fee_without_cashback(
    name: str, discriminator: bytes, fee: int
) -> None:
    """Older events are shorter, and lack the cashback or all fees; impossible rates give no fee."""
    data = newest(name, discriminator, b"buy_exact_quote_in")

    assert fee_of(call_of(name, data + b"grown later")) == fee
    last = 352 if name == "pumpswap" else 217
    for size in range(len(data)):
        expected = None if size < 16 + last else fee - 7
        assert fee_of(call_of(name, data[:size])) == expected, size
    if discriminator != SELL:  # a text without an end
        at = data.index(b"buy_exact") - 4
        assert fee_of(call_of(name, data[:at] + b"\xff" * 4 + data[at + 4 :])) == fee - 7
    for at in (16 + offset for offset in RATES[name]):
        assert fee_of(call_of(name, data[:at] + b"\xff" * 8 + data[at + 8 :])) is None
