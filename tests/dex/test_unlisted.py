"""Instructions and programs of 2026 without a recorded transaction, built from their layouts."""

import hashlib

import pytest

from mintscope.dex.outcome import Decoded, Moved
from support.scenes.json_transactions import decode_transaction
from support.scenes.made_transactions import (
    SELF_CALL,
    SPL,
    USDC,
    USER,
    WSOL,
    Ix,
    Tx,
    address,
    event,
    lamports,
    transfer,
    u64,
    unb58,
)

PUMPFUN = "6EF8rrecthR5Dkzon8Nwu78hRvfCKubJ14M5uBEwF6P"
PUMPSWAP = "pAMMBay6oceH9fJKBRHGP5D4bD4sWpmSwMn52FMfXEA"
CPMM = "CPMMoo8L3F4NbTegBCKVNunggL7H1ZpdTHKxQB5qKP1C"
CPMM_AUTHORITY = "GpMZbSM2GgvTKHJirzeGfMFoaZ8UR2X7F4v8vHTvxFbL"
DLMM = "LBUZKhRxPF3XUpBCjp4YzTKgLccjZhTSDM9YuVaPwxo"
TRADE = bytes.fromhex("bddb7fd34ee661ee")
BUY_EVENT = bytes.fromhex("67f4521f2cf57777")
SELL_EVENT = bytes.fromhex("3e2f370aa503dc2a")
POST_COMPLETE_BUY = bytes.fromhex("6fb06d8b316cd5fb")
NEW = hashlib.sha256(b"global:swap_of_next_year").digest()[:8]
A, B, C = (address(f"mint {name}") for name in "ABC")

CLOSED = {
    "bisonfi": "BiSoNHVpsVZW2F7rx2eQ59yQwKxzU5NvBcmKshCSUypi",
    "goonfi_v2": "goonuddtQRrWqqn5nFyczVKaie28f3kDkHWkHtURSLE",
    "alphaq": "ALPHAQmeA7bjrVuccPsYPiCvsi428SNwte66Srvs4pHA",
    "scorch": "SCoRcH8c2dpjvcJD6FiPbCSQyQgu3PcUAWj2Xxx3mqn",
    "quantum": "QuaNtZsgYRe5Z9Bk4LZ4cTD9tbkVoyCNf1R2BN9bBDv",
    "manifest": "MNFSTqtC93rEfYHB6hF82sKdZpUDFWkViLByLd1k1Ms",
    "defituna": "fUSioN9YKKSa3CUC2YUc4tPkHJ5Y6XW1yz8y6F7qWz9",
    "saros_dlmm": "1qbkdrr3z4ryLA7pZykqxvxWPoeifcVKo6ZG9CfkvVE",
}
JUPITER = "JUP6LkbZbjS1jKKwapdHNy74zcZ3tLUZoi5QNyVTaV4"
ROUTERS = [
    "term9YPb9mzAsABaqN71A4xdbxHmpBNZavpBiQKZzN3",
    "T1TANpTeScyeqVzzgNViGDNrkQ6qHz9KrSBS4aNXvGT",
    "GMgnVFR8Jb39LoXsEVzb3DvBy3ywCmdmJquHUy1Lrkqb",
]
EXCHANGE = [transfer("user b", "vault b", 1_000), transfer("vault a", "user a", 7_000)]
PAIR = "+".join(sorted([address("vault a"), address("vault b")]))
# The accounts of a call are x, vault a, vault b; for the other programs none is the pool.
POOLS = dict.fromkeys(["bisonfi", "goonfi_v2", "alphaq"], address("vault a"))
POOLS["saros_dlmm"] = address("x")
SALE = [transfer("user a", "vault a", 7_000), transfer("vault b", "user b", 900)]


def decode(tx: Tx) -> Decoded:
    return decode_transaction(tx.raw(), 0)


def rows(decoded: Decoded) -> list[tuple[str, str | None, str, int, str, int]]:
    return [
        (s.program, s.pool, s.in_mint, s.in_amount, s.out_mint, s.out_amount) for s in decoded.swaps
    ]


def held(tx: Tx, owner: str, quote: str = B) -> Tx:
    """Add the trader's accounts of A and *quote*, and vaults of *owner*, to *tx*; return *tx*."""
    tx.holds("user a", A, USER).holds("user b", quote, USER)
    return tx.holds("vault a", A, owner).holds("vault b", quote, owner)


def trade_event(mint: str, quotes: int, tokens: int, quote: str, *, is_buy: bool) -> Ix:
    """Return a TradeEvent of pump.fun, with the quote and the quote amount in its tail."""
    fields = unb58(mint) + u64(quotes, tokens) + bytes([is_buy]) + unb58(address(USER))
    tail = bytes(250 - len(fields)) + bytes(30) + unb58(quote) + u64(quotes) + bytes(16)
    return event(PUMPFUN, SELF_CALL + TRADE + fields + tail)


@pytest.mark.parametrize(
    ("head", "is_buy"),
    [("07051dc4f5176550", True), ("e1f7501ed5b38488", True), ("1c92de7726c469d5", False)],
)
@pytest.mark.parametrize("quote", [USDC, C], ids=["stable", "another pump coin"])
@pytest.mark.parametrize("after", [(), (POST_COMPLETE_BUY,)], ids=["", "completed"])
def test_a_pumpfun_v3_swap_is_read(
    head: str, quote: str, after: tuple[bytes, ...], *, is_buy: bool
) -> None:
    accounts = ["global", A, quote, "spl", "spl", "curve", "vault a", "vault b", USER, "user a"]
    quotes = 1_000 if is_buy else 900
    moved = [*(EXCHANGE if is_buy else SALE), trade_event(A, quotes, 7_000, quote, is_buy=is_buy)]
    moved += [event(PUMPFUN, SELF_CALL + kind + bytes(120)) for kind in after]
    call = Ix(PUMPFUN, accounts, bytes.fromhex(head) + u64(7_000, 2_000), moved)
    decoded = decode(held(Tx(call), "curve", quote))

    received, paid = (quote, quotes), (A, 7_000)
    if not is_buy:
        received, paid = paid, received
    assert rows(decoded) == [("pumpfun", address("curve"), *received, *paid)]
    assert (decoded.swaps[0].signer, decoded.quarantined) == (address(USER), [])


@pytest.mark.parametrize("quote", [WSOL, C])
def test_an_unlisted_pumpfun_instruction_is_read_from_its_event(quote: str) -> None:
    paid = lamports(USER, "curve", 1_000) if quote == WSOL else EXCHANGE[0]
    event_ = trade_event(A, 1_000, 7_000, quote, is_buy=True)
    call = Ix(PUMPFUN, ["global", "vault a"], NEW + u64(1), [paid, EXCHANGE[1], event_])
    decoded = decode(held(Tx(call), "curve", quote))

    assert rows(decoded) == [("pumpfun", address("curve"), quote, 1_000, A, 7_000)]


def swap_event(pool: str, received: int, paid: int, *, is_buy: bool) -> Ix:
    """Return a swap event of PumpSwap: fourteen numbers, then the pool."""
    numbers = [0] * 14
    numbers[1], numbers[12] = (paid, received) if is_buy else (received, paid)
    fields = u64(*numbers) + unb58(address(pool)) + bytes(200)
    return event(PUMPSWAP, SELF_CALL + (BUY_EVENT if is_buy else SELL_EVENT) + fields)


@pytest.mark.parametrize(
    ("head", "is_buy"),
    [
        ("b817ee6167c5d33d", True),
        ("c2ab1c46684d5b2f", True),
        ("5df6823ce7e940b2", False),
        (NEW.hex(), True),
    ],
)
def test_pumpswap_v2_amounts_are_those_of_its_event(head: str, *, is_buy: bool) -> None:
    """A buyer pays 1,000 units, of which the event counts 980; a seller gets 900 of its 920."""
    accounts = ["pool", USER, "config", A, B, "user a", "user b", "vault a", "vault b"]
    received, paid = ((B, 980), (A, 7_000)) if is_buy else ((A, 7_000), (B, 920))
    reported = swap_event("pool", received[1], paid[1], is_buy=is_buy)
    moved = [*(EXCHANGE if is_buy else SALE), reported]
    call = Ix(PUMPSWAP, accounts, bytes.fromhex(head) + u64(1, 1), moved)
    decoded = decode(held(Tx(call), "pool"))

    assert rows(decoded) == [("pumpswap", address("pool"), *received, *paid)]
    assert decoded.quarantined == []


def test_a_multi_hop_instruction_gives_one_swap_for_each_event() -> None:
    moved = [
        transfer("user a", "one a", 100),
        transfer("one b", "two b", 70),
        transfer("two c", "user c", 30),
        swap_event("one", 100, 70, is_buy=False),
        swap_event("two", 69, 30, is_buy=True),
    ]
    call = Ix(PUMPSWAP, [USER, "config"], bytes.fromhex("2b644913e9f66f94") + u64(100, 1), moved)
    tx = Tx(call).holds("user a", A, USER).holds("user c", C, USER)
    for account, mint, owner in [
        ("one a", A, "one"), ("one b", B, "one"), ("two b", B, "two"), ("two c", C, "two"),
    ]:  # fmt: skip
        tx.holds(account, mint, owner)
    decoded = decode(tx)

    assert rows(decoded) == [
        ("pumpswap", address("one"), A, 100, B, 70),
        ("pumpswap", address("two"), B, 69, C, 30),
    ]
    assert [swap.leg for swap in decoded.swaps] == [0, 1]


def test_a_new_instruction_of_meteora_is_read_from_its_event() -> None:
    fields = bytearray(160)
    fields[:32] = unb58(address("pool"))
    fields[72:88] = u64(1_000, 7_000)
    reported = event(DLMM, SELF_CALL + bytes.fromhex("516ce3becdd00ac4") + bytes(fields))
    decoded = decode(held(Tx(Ix(DLMM, ["x"], NEW, [*EXCHANGE, reported])), "pool"))

    assert rows(decoded) == [("meteora_dlmm", address("pool"), B, 1_000, A, 7_000)]


def test_a_call_is_quarantined_if_its_event_has_other_amounts() -> None:
    fields = bytearray(160)
    fields[:32] = unb58(address("pool"))
    fields[72:88] = u64(1_000, 6_999)
    reported = event(DLMM, SELF_CALL + bytes.fromhex("516ce3becdd00ac4") + bytes(fields))
    decoded = decode(held(Tx(Ix(DLMM, ["x"], NEW, [*EXCHANGE, reported])), "pool"))

    assert decoded.swaps == []
    assert [q.reason for q in decoded.quarantined] == ["event_disagrees"]


def test_a_quarantined_call_has_the_moved_amount_and_its_mints() -> None:
    fields = bytearray(160)
    fields[:32] = unb58(address("pool"))
    fields[72:88] = u64(1_000, 6_999)
    reported = event(DLMM, SELF_CALL + bytes.fromhex("516ce3becdd00ac4") + bytes(fields))
    named = ["pool", "vault a", "vault b", "vault a", "no token account"]
    decoded = decode(held(Tx(Ix(DLMM, named, NEW, [*EXCHANGE, reported])), "pool", USDC))

    assert [(q.moved, q.mints) for q in decoded.quarantined] == [(Moved(USDC, 1_000), (A, USDC))]


def test_an_unknown_instruction_that_moves_two_mints_is_quarantined() -> None:
    call = Ix(CPMM, ["x", "y"], NEW + u64(1_000), EXCHANGE)
    decoded = decode(held(Tx(call), CPMM_AUTHORITY))

    assert decoded.swaps == []
    assert [(q.program, q.reason, q.head) for q in decoded.quarantined] == [
        ("raydium_cpmm", "unknown_instruction", NEW.hex())
    ]


@pytest.mark.parametrize(
    "moved",
    [
        [EXCHANGE[0]],
        [EXCHANGE[0], transfer("user a", "vault a", 5)],
        [*EXCHANGE, Ix(SPL, ["lp mint", "user lp", "authority"], b"\x07" + u64(5))],
        [lamports(USER, "vault a", 2_039_280), EXCHANGE[1]],
    ],
    ids=["one mint", "a deposit", "liquidity", "rent for a claim"],
)
def test_an_unknown_instruction_without_an_exchange_is_ignored(
    moved: list[Ix],
) -> None:
    decoded = decode(held(Tx(Ix(CPMM, ["x"], NEW, moved)), CPMM_AUTHORITY))

    assert decoded == ([], [], [], [])


@pytest.mark.parametrize("name", CLOSED)
def test_a_swap_of_a_closed_program_is_read_from_its_transfers(name: str) -> None:
    decoded = decode(
        held(Tx(Ix(CLOSED[name], ["x", "vault a", "vault b"], b"\x07", EXCHANGE)), "pool")
    )

    assert rows(decoded) == [(name, POOLS.get(name, PAIR), B, 1_000, A, 7_000)]


def test_an_exchange_of_a_closed_program_with_two_pools_is_quarantined() -> None:
    """The trader traded with two pools in one call, so the amounts of each are not known."""
    moved = [
        transfer("user b", "vault b", 1_000),
        transfer("vault a", "user a", 7_000),
        transfer("user b", "other b", 500),
        transfer("other a", "user a", 3_000),
    ]
    tx = held(Tx(Ix(CLOSED["alphaq"], ["x", "vault a"], b"\x07", moved)), "pool", USDC)
    tx.holds("other a", A, "another pool").holds("other b", USDC, "another pool")
    decoded = decode(tx)

    assert decoded.swaps == []
    assert [(q.program, q.reason, q.head, q.moved, q.mints) for q in decoded.quarantined] == [
        ("alphaq", "unknown_exchange", "07", Moved(USDC, 1_500), (A,))
    ]


@pytest.mark.parametrize("router", ROUTERS)
def test_a_routed_swap_counts_once_as_a_swap_of_the_called_venue(router: str) -> None:
    hop = Ix(CLOSED["bisonfi"], ["x", "market"], b"\x07", EXCHANGE)
    decoded = decode(held(Tx(Ix(router, [USER], bytes(8), [hop])), "pool"))

    assert rows(decoded) == [("bisonfi", address("market"), B, 1_000, A, 7_000)]


@pytest.mark.parametrize("router", [JUPITER, *ROUTERS])
def test_an_unlisted_program_below_a_router_is_reported_with_its_transfers(router: str) -> None:
    hop = Ix("a program of next year", ["x"], NEW + b"1", EXCHANGE)
    call = Ix(router, [USER], bytes(8), [hop])
    decoded = decode(held(Tx(call), "pool", USDC))

    program = address("a program of next year")
    assert rows(decoded) == [(program, PAIR, USDC, 1_000, A, 7_000)]
    (reported,) = decoded.unlisted
    assert reported[1:] == (address("a program of next year"), NEW.hex(), (USDC, 1_000))


def test_an_unknown_instruction_is_reported_with_the_moved_amount() -> None:
    call = Ix(CPMM, ["x", "y"], NEW + u64(1_000), EXCHANGE)
    (reported,) = decode(held(Tx(call), CPMM_AUTHORITY, WSOL)).quarantined

    assert reported.moved == (WSOL, 1_000)
