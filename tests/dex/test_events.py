"""Event layouts, tested with real event bytes whose fields others have published."""

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from mintscope.dex.events import FIELDS_AT, LAYOUTS, u64
from mintscope.solana.blocks import WSOL
from support.scenes.json_transactions import decode_transaction
from support.scenes.made_transactions import (
    SELF_CALL,
    Ix,
    Tx,
    b58,
    event,
    lamports,
    transfer,
    unb58,
)

PUMPFUN = "6EF8rrecthR5Dkzon8Nwu78hRvfCKubJ14M5uBEwF6P"
TRADE_EVENT = bytes.fromhex("bddb7fd34ee661ee")

# test, program, names of the fields that our layout calls received, paid and aside
PUBLISHED = [
    ("unpack_sell_event_v2", "pumpswap", "base_amount_in", "quote_amount_out_without_lp_fee", None),
    ("unpack_buy_event_v2", "pumpswap", "quote_amount_in_with_lp_fee", "base_amount_out", None),
    ("unpack_launchpad_trade_event", "raydium_launchlab", "amount_in", "amount_out", None),
    ("unpack_launchpad_trade_event_2", "raydium_launchlab", "amount_in", "amount_out", None),
    (
        "unpack_daam_swap_event",
        "meteora_damm_v2",
        "params.amount_in",
        "swap_result.output_amount",
        "swap_result.referral_fee",
    ),
    ("unpack_dlmm_swap_event", "meteora_dlmm", "amount_in", "amount_out", "host_fee"),
]


@pytest.fixture(scope="module")
def vectors(shared_data: Path) -> dict[str, dict[str, Any]]:
    text = (shared_data / "events" / "event_vectors.jsonl").read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    return {line["test"]: line for line in lines}


@pytest.mark.parametrize("published", PUBLISHED, ids=[one[0] for one in PUBLISHED])
def test_offsets_agree_with_published_fields(
    vectors: dict[str, dict[str, Any]], published: tuple[str, str, str, str, str | None]
) -> None:
    test, program, received, paid, aside = published
    data, expected = bytes.fromhex(vectors[test]["hex"]), vectors[test]["expected"]
    layout = LAYOUTS[program][data[8:FIELDS_AT]]

    assert data[:8] == SELF_CALL
    assert str(u64(data, layout.received[0])) == expected[received]
    assert str(u64(data, layout.paid)) == expected[paid]
    if aside is not None:
        assert layout.aside is not None
        assert str(u64(data, layout.aside)) == expected[aside]


@pytest.mark.parametrize(
    "test",
    [
        "anchor_self_cpi_trade_v0",
        "anchor_self_cpi_trade_v1",
        "anchor_self_cpi_trade_v2",
        "anchor_self_cpi_trade_v3_sell",
        "anchor_self_cpi_trade_v3_buy",
    ],
)
def test_every_version_of_the_pumpfun_event_is_read(
    vectors: dict[str, dict[str, Any]], test: str
) -> None:
    """The event grew four times; a swap is read in the same way from each version."""
    data = bytes.fromhex(vectors[test]["hex"])
    mint_bytes, sol, tokens, is_buy = struct.unpack_from("<32sQQ?", data, 16)
    mint = b58(mint_bytes)
    accounts = ["global", "fee", mint, "curve", "curve tokens", "user tokens", "user"]
    head = "66063d1201daebea" if is_buy else "33e685a4017f83ad"
    call = Ix(PUMPFUN, accounts, bytes.fromhex(head) + bytes(16), [event(PUMPFUN, data)])
    (swap,) = decode_transaction(Tx(call).raw(), 0).swaps

    inward, outward = (swap.in_mint, swap.in_amount), (swap.out_mint, swap.out_amount)
    assert {inward, outward} == {(WSOL, sol), (mint, tokens)}
    assert is_buy == (swap.in_mint == WSOL)
    assert unb58(swap.pool or "") == unb58(
        Tx(call).entry()["transaction"]["message"]["accountKeys"][4]
    )


def pumpfun_event(mint: str, sol: int, tokens: int, *, is_buy: bool = True) -> bytes:
    return SELF_CALL + TRADE_EVENT + struct.pack("<32sQQ?", unb58(mint), sol, tokens, is_buy)


MINT = b58(bytes(range(100, 132)))
V1 = ["global", "fee", MINT, "curve", "curve tokens", "user tokens", "user"]
V2 = [
    *("global", MINT, "quote mint", "p1", "p2", "p3", "fee", "fee quote", "buyback"),
    *("buyback quote", "curve", "curve tokens", "curve quotes", "user", "user tokens"),
]


def test_a_swap_is_quarantined_if_its_event_disagrees_with_the_transfer() -> None:
    moved = transfer("curve tokens", "user tokens", 500)
    reported = event(PUMPFUN, pumpfun_event(MINT, 7, 501))
    call = Ix(PUMPFUN, V1, bytes.fromhex("66063d1201daebea"), [moved, reported])

    assert [q.reason for q in decode_transaction(Tx(call).raw(), 0).quarantined] == [
        "event_disagrees"
    ]


@pytest.mark.parametrize("head", ["b817ee6167c5d33d", "5df6823ce7e940b2", "c2ab1c46684d5b2f"])
@pytest.mark.parametrize("quote", [WSOL, "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"])
def test_a_curve_may_be_quoted_in_dollars(head: str, quote: str) -> None:
    """In events since 2026, the quote's mint follows a text and a list, near the end."""
    is_buy = head != "5df6823ce7e940b2"
    fixed = pumpfun_event(MINT, 7_000 if quote == WSOL else 0, 900_000, is_buy=is_buy)
    fixed += bytes(16 + 250 - len(fixed))
    ix_name, holders = b"\x06\0\0\0buy_v2", b"\x01\0\0\0" + bytes(34)
    tail = unb58(quote) + struct.pack("<QQQ", 7_000, 1, 2) + b"grown later"
    data = fixed + ix_name + bytes(1 + 8 * 4) + holders + tail
    accounts = [quote if word == "quote mint" else word for word in V2]
    moved = transfer("curve tokens", "user tokens", 900_000)
    call = Ix(PUMPFUN, accounts, bytes.fromhex(head), [moved, event(PUMPFUN, data)])
    (swap,) = decode_transaction(Tx(call).raw(), 0).swaps

    sides = [(swap.in_mint, swap.in_amount), (swap.out_mint, swap.out_amount)]
    expected = [(quote, 7_000), (MINT, 900_000)]
    assert sides == (expected if is_buy else expected[::-1])
    assert swap.in_decimals == (6 if not is_buy or quote != WSOL else 9)
    if quote != WSOL:  # the quote reserve, from the tail of the event
        assert (swap.in_left if is_buy else swap.out_left) == 1


def test_an_event_with_zero_amounts_gives_no_swap() -> None:
    reported = event(PUMPFUN, pumpfun_event(MINT, 0, 0))
    call = Ix(PUMPFUN, V1, bytes.fromhex("66063d1201daebea"), [reported])

    assert decode_transaction(Tx(call).raw(), 0) == ([], [], [], [])


def test_a_purchase_without_event_is_read_from_its_transfers() -> None:
    """The transfers of a purchase show both amounts; those of a sale show no lamports."""
    tokens = transfer("curve tokens", "user tokens", 400)
    bought = Ix(
        PUMPFUN, V1, bytes.fromhex("66063d1201daebea"), [tokens, lamports("user", "curve", 9)]
    )
    sold = Ix(
        PUMPFUN, V1, bytes.fromhex("33e685a4017f83ad"), [transfer("user tokens", "curve tokens", 4)]
    )
    decoded = decode_transaction(Tx(bought, sold).holds("curve tokens", MINT, "curve").raw(), 0)

    assert [(s.in_mint, s.in_amount, s.out_mint, s.out_amount) for s in decoded.swaps] == [
        (WSOL, 9, MINT, 400)
    ]
    assert [(q.program, q.reason) for q in decoded.quarantined] == [("pumpfun", "no_movement")]
