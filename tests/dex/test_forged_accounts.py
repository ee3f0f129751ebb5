"""A trader can reopen accounts or give them away in a transaction, but so change no swap of a pool.

The balances show each account only as it is after the transaction.  The owner of an account can
close it and open it again with another mint, or make anybody its owner.
"""

import json
import struct
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any, Final

import pytest

from mintscope.dex.base58 import decode
from mintscope.dex.events import SELF_CALL
from mintscope.dex.outcome import Decoded, QuarantineReason, RecognisedBy
from mintscope.solana.blocks import WSOL
from support.scenes.json_transactions import decode_transaction
from support.scenes.made_transactions import (
    SPL,
    SPL_2022,
    USER,
    Ix,
    Tx,
    address,
    b58,
    batch,
    checked,
    event,
    transfer,
    u64,
)

RAYDIUM_V4: Final = "675kPX9MHTjS2zt1qfr1NYHuzeLXfQM9H24wFSUt1Mp8"
RAYDIUM_CLMM: Final = "CAMMCzo5YL8w4VFF8KVHrK22GGUsp5VTaW7grrKgrWqK"
PUMPSWAP: Final = "pAMMBay6oceH9fJKBRHGP5D4bD4sWpmSwMn52FMfXEA"
AUTHORITY: Final = "5Q544fKrFoe6tsEbD7S8EmxGTJYAKtTVhAW5Q5pge4j1"
VICTIM: Final = address("mint of a victim")
JUNK: Final = address("mint of no value")
SOL: Final = 10**9


def recorded(folder: Path) -> list[Path]:
    files = sorted(folder.glob("transactions*/tx/*.json"))
    if not files:
        pytest.skip(f"did not run: no recorded transactions are in {folder}")
    return files


def amounts(decoded: Decoded) -> list[tuple[str, str, int, str, int]]:
    return [
        (one.pool, one.in_mint, one.in_amount, one.out_mint, one.out_amount)
        for one in decoded.swaps
    ]


def test_a_source_that_is_reopened_with_another_mint_gives_that_mint_no_price() -> None:
    def sale(mint: str) -> Tx:
        swap = Ix(
            RAYDIUM_V4,
            ["spl", "amm", AUTHORITY],
            b"\x09" + bytes(16),
            [transfer("user a", "vault a", 1_000), transfer("vault sol", "user sol", 5 * SOL)],
        )
        close = Ix(SPL, ["user a", USER, USER], b"\x09")
        reopen = Ix(SPL, ["user a", mint, USER], b"\x12" + bytes(32))
        tx = Tx(swap, close, reopen).holds("user a", mint, USER, before=1_000)
        tx.holds("vault a", JUNK, AUTHORITY, after=10**12)
        tx.holds("vault sol", WSOL, AUTHORITY, 9, before=105 * SOL, after=100 * SOL)
        return tx.holds("user sol", WSOL, USER, 9, after=5 * SOL)

    honest = decode_transaction(sale(JUNK).raw(), 0)
    forged = decode_transaction(sale(VICTIM).raw(), 0)

    assert [swap.in_mint for swap in honest.swaps] == [JUNK]
    assert forged.swaps == []
    assert [each.reason for each in forged.quarantined] == [QuarantineReason.UNRESOLVED_MINT]


def test_no_recorded_swap_can_be_read_as_one_of_another_mint(shared_data: Path) -> None:
    tried: Counter[str] = Counter()
    forged: Counter[str] = Counter()
    for file in recorded(shared_data):
        raw = file.read_bytes()
        for swap in decode_transaction(raw, 0).swaps:
            changed = json.loads(raw)
            paid_from = [
                each
                for each in changed["meta"]["postTokenBalances"]
                if (each["mint"], each.get("owner")) == (swap.in_mint, swap.signer)
            ]
            for each in paid_from:
                each["mint"] = VICTIM
            read = decode_transaction(json.dumps(changed).encode(), 0).swaps
            tried[swap.program] += bool(paid_from)
            forged[swap.program] += any(
                (one.in_mint, one.pool, one.recognised_by)
                == (VICTIM, swap.pool, RecognisedBy.TABLE)
                for one in read
            )
    assert tried.total() > 100
    assert +forged == Counter()


@pytest.mark.parametrize("program", [SPL, SPL_2022])
@pytest.mark.parametrize("is_reopened", [True, False])
def test_an_account_given_to_the_pool_after_a_sale_hides_no_payment(
    program: str, *, is_reopened: bool
) -> None:
    def sale(owner: str) -> Tx:
        published = bytearray(SELF_CALL + bytes.fromhex("3e2f370aa503dc2a") + bytes(500))
        struct.pack_into("<Q", published, 16 + 8, 1_000)
        struct.pack_into("<Q", published, 16 + 96, 10 * SOL)
        swap = Ix(
            PUMPSWAP,
            ["pool", USER, "config", "coin", WSOL, "user a", "user sol", "vault a", "vault sol"],
            bytes.fromhex("33e685a4017f83ad") + u64(1_000, 0),
            [
                checked("user a", "coin", "vault a", 1_000, program=program),
                checked("vault sol", WSOL, "user sol", 9_900_000_000, 9),
                checked("vault sol", WSOL, "fees", 100_000_000, 9),
                event(PUMPSWAP, bytes(published)),
            ],
        )
        move = transfer("user sol", "user 2", 9_900_000_000)
        give = [Ix(SPL, ["user sol", USER], b"\x06\x02\x01" + bytes(32))]  # SetAuthority
        if is_reopened:
            close = Ix(SPL, ["user sol", USER, USER], b"\x09")
            give = [close, Ix(SPL, ["user sol", WSOL, owner], b"\x12" + bytes(32))]
        tx = Tx(swap, move, *give)
        tx.holds("user a", "coin", USER, before=1_000, after=0)
        tx.holds("vault a", "coin", "pool", before=10**12, after=10**12 + 1_000)
        tx.holds("vault sol", WSOL, "pool", 9, before=10_010 * SOL, after=10_000 * SOL)
        tx.holds("user sol", WSOL, owner, 9).holds("user 2", WSOL, USER, 9, after=9_900_000_000)
        return tx.holds("fees", WSOL, "owner of fees", 9, after=100_000_000)

    honest = decode_transaction(sale(USER).raw(), 0)
    given = decode_transaction(sale("pool").raw(), 0)

    assert [swap.out_amount for swap in honest.swaps] == [10 * SOL]
    assert given.swaps == []
    assert [each.reason for each in given.quarantined] == [QuarantineReason.NO_MOVEMENT]


def give_away(transaction: Any, balances: list[Any]) -> None:
    """Add a SetAuthority for the account of each of *balances* to *transaction*."""
    message = transaction["transaction"]["message"]
    loaded = transaction["meta"].get("loadedAddresses") or {"writable": [], "readonly": []}
    keys = [*message["accountKeys"], *loaded["writable"], *loaded["readonly"]]
    for each in balances:
        message["instructions"].append(
            {
                "programIdIndex": keys.index(each["programId"]),
                "accounts": [each["accountIndex"], 0],
                "data": b58(b"\x06\x02\x01" + bytes(32)),
            }
        )


def test_no_recorded_swap_is_changed_by_new_owners_of_accounts(shared_data: Path) -> None:
    """A swap keeps its amounts, or the call is reported, if another party owns a trader's account.

    Only the side of an order between two traders may change (Jupiter RFQ).
    """

    def traded(decoded: Decoded) -> set[frozenset[tuple[str, int]]]:
        return {
            frozenset(((one.in_mint, one.in_amount), (one.out_mint, one.out_amount)))
            for one in decoded.swaps
        }

    tried = 0
    for file in recorded(shared_data):
        raw = file.read_bytes()
        before = decode_transaction(raw, 0)
        for swap, is_paid in product(before.swaps, (True, False)):
            if swap.recognised_by is not RecognisedBy.TABLE:
                continue
            mint = swap.in_mint if is_paid else swap.out_mint
            changed: Any = json.loads(raw)
            balances = changed["meta"]["postTokenBalances"]
            owners = {each.get("owner") for each in balances if each["mint"] == mint}
            given = [
                each
                for each in balances
                if (each["mint"], each.get("owner")) == (mint, swap.signer)
            ]
            give_away(changed, given)
            for owner in owners - {swap.signer}:
                for each in given:
                    each["owner"] = owner
                after = decode_transaction(json.dumps(changed).encode(), 0)
                tried += bool(given)
                is_reported = len(after.quarantined) > len(before.quarantined)
                assert is_reported or traded(after) == traded(before), (file, owner)
    assert tried > 100


A, B = address("mint a"), address("mint b")
SET_AUTHORITY: Final = Ix(SPL, ["user out", USER], b"\x06\x02\x01" + bytes(32))
CLOSE: Final = Ix(SPL, ["user out", USER, "closer"], b"\x09")
DRAIN: Final = transfer("user out", "user 2", 990)
SYNC: Final = Ix(SPL, ["user w"], b"\x11")
ORCA: Final = "whirLbMiicVdio4qvUfM5KAg6Ct8VwpYzGff3uctyCc"
ORCA_HOPS: Final = bytes.fromhex("c360ed6c44a2dbe6") + u64(1, 0)
ROUTE: Final = bytes.fromhex("457d73daf5baf2c4") + u64(1)  # swap_router_base_in


def reopen(mint: str, owner: str) -> Ix:
    return Ix(SPL, ["user out", mint], b"\x12" + decode(address(owner)))


def cycle(program: str, data: bytes, *others: Ix, first: int = 0, owner: str) -> Decoded:
    """Return the swaps of a route from A to B in pool 1, and back to A in pool 2.

    others   the other instructions; *first* of them run before the route
    owner    the owner of the account that the route paid, after the transaction
    """
    named = ["spl", USER, "pool 1", "pool 2", "user in", "vault 1a"]
    moved = [
        transfer("user in", "vault 1a", 1_000),
        transfer("vault 1b", "user mid", 50),
        transfer("user mid", "vault 2b", 50),
        transfer("vault 2a", "user out", 990),
    ]
    tx = Tx(*others[:first], Ix(program, named, data, moved), *others[first:])
    tx.holds("user in", A, USER).holds("user mid", B, USER).holds("user out", A, owner)
    for vault, mint in (("1a", A), ("1b", B), ("2b", B), ("2a", A)):
        tx.holds(f"vault {vault}", mint, f"pool {vault[0]}", after=10**9)
    return decode_transaction(tx.raw(), 0)


@pytest.mark.parametrize(("program", "data"), [(ORCA, ORCA_HOPS), (RAYDIUM_CLMM, ROUTE)])
def test_a_pool_of_a_cycle_is_paid_nothing_by_an_account_that_it_is_given(
    program: str, data: bytes
) -> None:
    batches = [Ix("own", [USER], b"\x01", [batch(*[SYNC] * 250)])] * 4
    hidden = Ix("own", [USER], b"\x01", [batch(SYNC, SET_AUTHORITY)])
    honest = cycle(program, data, owner=USER)
    given = cycle(program, data, DRAIN, SET_AUTHORITY, owner="pool 1")
    in_batch = cycle(program, data, DRAIN, *batches, hidden, owner="pool 1")
    twice = CLOSE, reopen(A, USER), DRAIN, CLOSE, reopen(A, "pool 1")
    reopened = cycle(program, data, *twice, first=2, owner="pool 1")
    other_mint = cycle(program, data, CLOSE, reopen(B, USER), first=2, owner="pool 1")

    assert [(each.in_amount, each.out_amount) for each in honest.swaps] == [(1_000, 50), (50, 990)]
    for forged in (given, in_batch, reopened, other_mint):
        assert forged.swaps == []
        assert forged.quarantined[0].reason == QuarantineReason.NO_MOVEMENT


@pytest.mark.parametrize(("program", "data"), [(ORCA, ORCA_HOPS), (RAYDIUM_CLMM, ROUTE)])
def test_an_account_that_is_reopened_for_the_same_owner_hides_no_swap(
    program: str, data: bytes
) -> None:
    honest = cycle(program, data, owner=USER)
    reopened = cycle(program, data, CLOSE, reopen(A, USER), first=2, owner=USER)

    assert amounts(reopened) == amounts(honest) != []


@pytest.mark.parametrize("fee", [0, 1])
@pytest.mark.parametrize(
    "program",
    [
        "AQU1FRd7papthgdrwPTTq5JacJh8YtwEXaBfKU3bTz45",
        "TessVdML9pBGgG9yGks7o4HewRaXVAMuoVj4x83GLQH",
    ],
)
def test_a_venue_without_known_vaults_keeps_no_payment(program: str, fee: int) -> None:
    def sale(owner: str, *others: Ix) -> Decoded:
        moved = [transfer("user in", "vault a", 1_000), transfer("vault b", "user out", 50)]
        moved += [transfer("vault b", "fees", fee)] if fee else []
        swap = Ix(program, [USER, "pool", "x", "user in"], b"\x07" + u64(1), moved)
        tx = Tx(swap, *others).holds("user in", A, USER).holds("user out", B, owner)
        tx.holds("vault a", A, "pool", after=10**9).holds("vault b", B, "pool", after=10**9)
        return decode_transaction(tx.holds("fees", B, "owner of fees").raw(), 0)

    honest, given = sale(USER), sale("pool", SET_AUTHORITY)

    assert [(each.in_amount, each.out_amount) for each in honest.swaps] == [(1_000, 50 + fee)]
    assert given.swaps == []
    assert [each.reason for each in given.quarantined] == [QuarantineReason.NO_MOVEMENT]


def test_the_account_of_a_router_is_no_pool_if_a_signer_first_paid_a_fee() -> None:
    moved = [
        transfer("user fee", "fees", 1),
        transfer("router in", "vault 1a", 1_000),
        transfer("vault 1b", "router out", 50),
    ]
    tx = Tx(Ix(RAYDIUM_CLMM, ["router", "router in", A], ROUTE, moved))
    tx.holds("router in", A, "router").holds("router out", B, "router")
    tx.holds("user fee", A, USER).holds("fees", A, "owner of fees")
    tx.holds("vault 1a", A, "pool 1", after=10**9).holds("vault 1b", B, "pool 1", after=10**9)

    assert [
        (each.pool, each.in_amount, each.out_amount)
        for each in decode_transaction(tx.raw(), 0).swaps
    ] == [(address("pool 1"), 1_000, 50)]


def test_the_first_hop_of_a_router_is_read_if_another_party_receives() -> None:
    a, b, c = (address(f"mint {name}") for name in "abc")
    route = Ix(
        RAYDIUM_CLMM,
        [USER, "user a", a],
        bytes.fromhex("457d73daf5baf2c4") + u64(1),  # swap_router_base_in
        [
            transfer("user a", "vault 1a", 100),
            transfer("vault 1b", "user b", 50),
            transfer("user b", "vault 2b", 50),
            transfer("vault 2c", "taker c", 7),
        ],
    )

    def sent_to(owner: str) -> Decoded:
        tx = Tx(route).holds("user a", a, USER).holds("user b", b, USER).holds("taker c", c, owner)
        for vault, mint, pool in (("1a", a, "1"), ("1b", b, "1"), ("2b", b, "2"), ("2c", c, "2")):
            tx.holds(f"vault {vault}", mint, f"pool {pool}", after=10**9)
        return decode_transaction(tx.raw(), 0)

    own, other = sent_to(USER), sent_to("a friend")

    assert [(swap.in_amount, swap.out_amount) for swap in own.swaps] == [(100, 50), (50, 7)]
    assert amounts(other) == amounts(own)
