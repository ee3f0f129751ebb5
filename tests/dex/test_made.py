"""Swaps of which no transaction is recorded, built from layouts and published event bytes."""

import hashlib
import json
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mintscope.dex import base58
from mintscope.dex.outcome import Decoded, Swap
from support.scenes.json_transactions import decode_transaction
from support.scenes.made_transactions import (
    JUPITER,
    SELF_CALL,
    SPL,
    SPL_2022,
    USDC,
    USER,
    WSOL,
    Ix,
    Tx,
    address,
    checked,
    event,
    lamports,
    transfer,
    u64,
    with_fee,
)

WHIRLPOOL = "whirLbMiicVdio4qvUfM5KAg6Ct8VwpYzGff3uctyCc"
CLMM = "CAMMCzo5YL8w4VFF8KVHrK22GGUsp5VTaW7grrKgrWqK"
CPMM = "CPMMoo8L3F4NbTegBCKVNunggL7H1ZpdTHKxQB5qKP1C"
DAMM_V1 = "Eo7WjKq67rjJQSZxS6z3YkapzY3eMj6Xy8X5EQVn5UaB"
DAMM_V2 = "cpamdpZCGKUy5JxQXB4dcpGPiikHawvSWAd6mEn1sGG"
DBC = "dbcij3LWUppWqq96dh6gJWwBifmcGfLSB5D4DuSMaqN"
LAUNCHLAB = "LanMV9sAd7wArD4vJFi2qDdfnVhFxYSUg6eADduJ3uj"
RFQ = "61DFfeTKM7trxYcPQCM78bJ794ddZprZpAwAnLiwTpYH"
SOLFI = "SoLFiHG9TfgtdUXUjWAxi3LtvYuFyDLVhBWxdMZxyCe"
TESSERA = "TessVdML9pBGgG9yGks7o4HewRaXVAMuoVj4x83GLQH"
RAYDIUM_V4 = "675kPX9MHTjS2zt1qfr1NYHuzeLXfQM9H24wFSUt1Mp8"
RAYDIUM_AUTHORITY = "5Q544fKrFoe6tsEbD7S8EmxGTJYAKtTVhAW5Q5pge4j1"
SWAP = bytes.fromhex("f8c69e91e17587c8")
SWAP_2 = bytes.fromhex("414b3f4ceb5b5b88")

A, B, C = (address(f"mint {name}") for name in "ABC")


def decode(tx: Tx) -> Decoded:
    return decode_transaction(tx.raw(), 0)


def amounts(swaps: list[Swap]) -> list[tuple[str, int, str, int]]:
    return [(s.in_mint, s.in_amount, s.out_mint, s.out_amount) for s in swaps]


def users(tx: Tx) -> Tx:
    """Add the trader's three token accounts to *tx*, and return *tx*."""
    return tx.holds("user a", A, USER).holds("user b", B, USER, 9).holds("user c", C, USER, 2)


def pool(tx: Tx, *vaults: tuple[str, str], owner: str) -> Tx:
    for vault, mint in vaults:
        tx.holds(vault, mint, owner)
    return tx


def raydium(*calls: Ix, head: int = 9, size: int = 17) -> Ix:
    accounts = ["spl", "amm", RAYDIUM_AUTHORITY, "vault a", "vault b"]
    return Ix(RAYDIUM_V4, accounts, bytes([head]) + bytes(size - 1), list(calls))


def raydium_tx(*calls: Ix, **options: Any) -> Tx:
    """Return a transaction with the vaults of one Raydium v4 pool."""
    tx = users(Tx(*calls, **options))
    return pool(tx, ("vault a", A), ("vault b", B), owner=RAYDIUM_AUTHORITY)


EXCHANGE = (transfer("user a", "vault a", 100), transfer("vault b", "user b", 70))


# --- programs --------------------------------------------------------------------------------


def test_a_damm_v1_swap_is_read_from_the_calls_of_its_vault_program() -> None:
    """Each side has its own vault; the deposit into a vault also mints LP tokens."""
    vault_program = "24Uqj9JCLxUeoC3hGfh5W3s9FM9uCHDS2SG3LYwBpyTi"
    minted = Ix("spl", ["lp mint", "a lp", "authority"], b"\x07" + u64(5))
    deposit = Ix(vault_program, ["vault A"], bytes(8), [transfer("user a", "tokens a", 95), minted])
    withdraw = Ix(vault_program, ["vault B"], bytes(8), [transfer("tokens b", "user b", 70)])
    accounts = ["pool", "user a", "user b", "vault A", "vault B", "tokens a", "tokens b"]
    fee = transfer("user a", "admin fee", 5)
    call = Ix(DAMM_V1, accounts, SWAP + u64(100, 0), [fee, deposit, withdraw])
    tx = users(Tx(call)).holds("tokens a", A, "vault A").holds("tokens b", B, "vault B")
    (swap,) = decode(tx).swaps

    assert amounts([swap]) == [(A, 95, B, 70)]
    assert (swap.program, swap.pool) == ("meteora_damm_v1", address("pool"))


def test_a_damm_v1_reserve_is_the_share_of_the_pool_in_the_common_vault() -> None:
    """One vault holds 47,000 SOL of all pools; a pool of 40 dollars must count only its share."""
    accounts = [
        "pool", "user a", "user b", "vault A", "vault B", "tokens a", "tokens b", "lp mint a",
        "lp mint b", "lp a", "lp b", "fee a", "user", "vault program", "tokens",
    ]  # fmt: skip
    moved = [transfer("user a", "tokens a", 95), transfer("tokens b", "user b", 70)]

    def left(*held: str) -> tuple[int | None, int | None]:
        tx = users(Tx(Ix(DAMM_V1, accounts, SWAP + u64(100, 0), moved)))
        tx.holds("tokens a", A, "vault A", after=10**15).holds(
            "tokens b", B, "vault B", after=10**15
        )
        if "lp a" in held:
            tx.holds("lp a", "lp mint a", "pool", after=1_095)
        if "lp b" in held:
            tx.holds("lp b", "lp mint b", "pool", after=2_030)
        (swap,) = decode(tx).swaps
        return swap.in_left, swap.out_left

    assert left("lp a", "lp b") == (1_095, 2_030)
    assert left("lp b") == (None, 2_030)
    assert left() == (None, None)


@pytest.mark.parametrize("head", [SWAP, SWAP_2])
@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("referred", [0, 7])
def test_a_damm_v2_swap_is_read_with_either_event(head: bytes, version: int, referred: int) -> None:
    """Offsets of the older event are from published bytes, those of the newer from its layout."""
    owner = "HLnpSz9h2S4hiLQ43rnSD9XkcUThA7B8hQMKmDaiTLcC"
    received, paid = 200_000_000, 155_508_363_191_534
    fields = bytearray(180)
    if version == 1:
        disc = "1b3c15d58aaabb93"
        places = {34: received, 50: paid, 98: referred, 106: received}
    else:
        disc = "bd4233a826507599"
        places = {52: received, 76: paid, 124: referred, 132: received, 140: paid}
    for at, value in places.items():
        fields[at : at + 8] = u64(value)
    moved = [
        checked("user a", A, "vault a", received),
        checked("vault b", B, "user b", paid, 9),
        checked("vault b", B, "referrer b", referred, 9),
        event(DAMM_V2, SELF_CALL + bytes.fromhex(disc) + fields),
    ]
    accounts = [owner, "pool", "user a", "user b", "vault a", "vault b", A, B, USER]
    call = Ix(DAMM_V2, accounts, head + u64(received, 0), moved)
    tx = pool(users(Tx(call)), ("vault a", A), ("vault b", B), owner=owner)
    decoded = decode(tx)

    assert amounts(decoded.swaps) == [(A, received, B, paid + referred)]
    assert (decoded.swaps[0].program, decoded.swaps[0].pool) == (
        "meteora_damm_v2",
        address("pool"),
    )


@pytest.mark.parametrize(
    ("disc", "places"),
    [
        ("1b3c15d58aaabb93", {66: 1000, 82: 990, 90: 50, 130: 3, 138: 1000}),
        ("bd4233a826507599", {66: 1000, 83: 1000, 91: 990, 107: 50, 147: 3}),
    ],
)
def test_the_referral_fee_of_dbc_is_subtracted_from_the_received_amount(
    disc: str, places: dict[int, int]
) -> None:
    owner = "FhVo3mqL8PW5pH5U2CN4XE33DokiyZnUwuGpH2hmHLuM"
    fields = bytearray(180)
    for at, value in places.items():
        fields[at : at + 8] = u64(value)
    moved = [
        transfer("user a", "vault a", 1000),
        transfer("vault b", "user b", 50),
        transfer("vault a", "referrer a", 3),
        event(DBC, SELF_CALL + bytes.fromhex(disc) + fields),
    ]
    accounts = [owner, "config", "pool", "user a", "user b", "vault a", "vault b"]
    call = Ix(DBC, accounts, SWAP + u64(1000, 0), moved)
    tx = pool(users(Tx(call)), ("vault a", A), ("vault b", B), owner=owner)
    decoded = decode(tx)

    assert amounts(decoded.swaps) == [(A, 997, B, 50)]
    assert decoded.swaps[0].pool == address("pool")


@pytest.mark.parametrize("grown", [b"", bytes(9)])
def test_launchlab_reads_both_lengths_of_its_event(grown: bytes) -> None:
    owner = "WLHv2UAZm6z4KyaaELi5pjdbJh6RESMva1Rnn8pJVVh"
    fields = bytes(88) + u64(1_468_700, 5_004_973_052) + bytes(26) + grown
    moved = [
        transfer("user b", "vault b", 1_468_700),
        transfer("vault a", "user a", 5_004_973_052),
        event(LAUNCHLAB, SELF_CALL + bytes.fromhex("bddb7fd34ee661ee") + fields),
    ]
    accounts = [USER, owner, "global", "platform", "pool", "user a", "user b"]
    call = Ix(LAUNCHLAB, accounts, bytes.fromhex("faea0d7bd59c13ec") + u64(1, 1, 0), moved)
    tx = pool(users(Tx(call)), ("vault a", A), ("vault b", B), owner=owner)

    assert amounts(decode(tx).swaps) == [(B, 1_468_700, A, 5_004_973_052)]


@pytest.mark.parametrize(
    ("quote", "virtual", "counts"),
    [
        (WSOL, 30 * 10**9, 30 * 10**9),
        (WSOL, 10**15, 40 * 10**9),
        (USDC, 4_400 * 10**6, 4_400 * 10**6),
        (USDC, 10**15, 6_000 * 10**6),
        (B, 30 * 10**9, 0),
    ],
)
@pytest.mark.parametrize("is_buy", [True, False])
def test_the_launchlab_reserve_is_the_bounded_virtual_reserve_plus_the_vault(
    quote: str,
    virtual: int,
    counts: int,
    is_buy: bool,  # noqa: FBT001 - a parameter
) -> None:
    """A virtual reserve counts up to that of a usual curve; the vault holds 5 * 10**9 units."""
    owner = "WLHv2UAZm6z4KyaaELi5pjdbJh6RESMva1Rnn8pJVVh"
    reserves = bytes(48) + u64(virtual) + bytes(24) + u64(5 * 10**9)
    fields = reserves + u64(1_468_700, 5_004_973_052) + bytes(26)
    paid, got = (quote, A) if is_buy else (A, quote)
    moved = [
        transfer("user b", "vault b", 1_468_700),
        transfer("vault a", "user a", 5_004_973_052),
        event(LAUNCHLAB, SELF_CALL + bytes.fromhex("bddb7fd34ee661ee") + fields),
    ]
    accounts = [USER, owner, "global", "platform", "pool", "user a", "user b"]
    head = "faea0d7bd59c13ec" if is_buy else "9527de9bd37c981a"
    call = Ix(LAUNCHLAB, accounts, bytes.fromhex(head) + u64(1, 1, 0), moved)
    tx = Tx(call).holds("user a", got, USER).holds("user b", paid, USER)
    tx = pool(tx, ("vault a", got), ("vault b", paid), owner=owner)
    (swap,) = decode(tx).swaps

    assert (swap.in_mint, swap.out_mint) == (paid, got)
    left = counts + 5 * 10**9
    assert (swap.in_left, swap.out_left) == ((left, 0) if is_buy else (0, left))


@pytest.mark.parametrize(
    ("head", "before"), [("c360ed6c44a2dbe6", ("spl", USER)), ("ba8fd11dfe02c275", ())]
)
def test_two_hops_of_one_instruction_are_two_swaps(head: str, before: tuple[str, ...]) -> None:
    """Both pools are Whirlpools; version 2 moves the middle mint directly to the second pool."""
    if before:
        middle = [transfer("one b", "user b", 70), transfer("user b", "two b", 70)]
    else:
        middle = [transfer("one b", "two b", 70)]
    moved = [transfer("user a", "one a", 100), *middle, transfer("two c", "user c", 30)]
    accounts = [*before, "pool one", "pool two", A, B, C]
    call = Ix(WHIRLPOOL, accounts, bytes.fromhex(head) + u64(100, 1), moved)
    tx = pool(users(Tx(call)), ("one a", A), ("one b", B), owner="pool one")
    tx = pool(tx, ("two b", B), ("two c", C), owner="pool two")
    swaps = decode(tx).swaps

    assert amounts(swaps) == [(A, 100, B, 70), (B, 70, C, 30)]
    assert [(s.pool, s.leg) for s in swaps] == [
        (address("pool one"), 0),
        (address("pool two"), 1),
    ]


@pytest.mark.parametrize("hops", [1, 2, 3])
def test_hops_of_the_clmm_router_get_their_pools_from_the_vault_owners(hops: int) -> None:
    mints = [A, B, C, WSOL]
    moved, held = [], []
    for hop in range(hops):
        source = "user a" if hop == 0 else f"user {mints[hop]}"
        target = f"user {mints[hop + 1]}"
        moved += [
            transfer(source, f"in {hop}", 100 - hop * 10),
            transfer(f"out {hop}", target, 90 - hop * 10),
        ]
        held += [
            (f"in {hop}", mints[hop], f"pool {hop}"),
            (f"out {hop}", mints[hop + 1], f"pool {hop}"),
        ]
        held.append((target, mints[hop + 1], USER))
    call = Ix(CLMM, [USER, "user a", A], bytes.fromhex("457d73daf5baf2c4") + u64(100, 1), moved)
    tx = users(Tx(call))
    for account, mint, owner in held:
        tx.holds(account, mint, owner)
    swaps = decode(tx).swaps

    assert amounts(swaps) == [
        (mints[hop], 100 - hop * 10, mints[hop + 1], 90 - hop * 10) for hop in range(hops)
    ]
    assert [(s.leg, s.pool) for s in swaps] == [
        (hop, address(f"pool {hop}")) for hop in range(hops)
    ]


def test_the_signer_who_pays_is_the_trader_if_another_wallet_receives() -> None:
    """One of two signers pays the pool; a third wallet gets the bought tokens."""
    tx = Tx(raydium(*EXCHANGE), signers=("payer", USER))
    tx = pool(tx, ("vault a", A), ("vault b", B), owner=RAYDIUM_AUTHORITY)
    (swap,) = decode(tx.holds("user a", A, USER).holds("user b", B, "friend")).swaps

    assert swap.signer == address(USER)


def test_the_taker_is_the_trader_if_the_maker_pays_the_network_fee() -> None:
    """The maker takes the place of a pool; the taker is the second signer."""
    moved = [transfer("user a", "maker a", 100), transfer("maker b", "user b", 70)]
    call = Ix(RFQ, [USER, "maker"], bytes.fromhex("a860b7a35c0a28a0") + u64(100, 70, 0), moved)
    tx = users(Tx(call, signers=("maker", USER)))
    (swap,) = decode(pool(tx, ("maker a", A), ("maker b", B), owner="maker")).swaps

    assert amounts([swap]) == [(A, 100, B, 70)]
    assert swap.signer == address(USER)


@pytest.mark.parametrize("owner", ["vault owner", None])
def test_a_swap_of_a_closed_program_is_read_from_its_transfers(owner: str | None) -> None:
    """The balances of both vaults name the same owner, or no owner."""
    call = Ix(TESSERA, ["x", "y"], b"\x10" + bytes(17), list(EXCHANGE))
    tx = users(Tx(call)).holds("vault a", A, owner).holds("vault b", B, owner)
    (swap,) = decode(tx).swaps

    assert amounts([swap]) == [(A, 100, B, 70)]
    assert (swap.program, swap.pool) == ("tessera", address("y"))


@pytest.mark.parametrize("kind", [7, 8, 14, 15])
def test_a_closed_program_that_mints_or_burns_gives_no_swap(kind: int) -> None:
    supply = Ix("TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA", ["lp"], bytes([kind]) + u64(1))
    call = Ix(SOLFI, ["x", "owner"], b"\x07", [*EXCHANGE, supply])
    tx = pool(users(Tx(call)), ("vault a", A), ("vault b", B), owner="owner")

    assert decode(tx) == ([], [], [], [])


# --- who moved what --------------------------------------------------------------------------


def test_instructions_with_a_head_of_one_byte_do_not_fill_the_cache() -> None:
    """Each swap has other amounts, so caching its data would displace entries that recur."""
    base58.common_head.cache_clear()
    random = Random(1)
    for _ in range(500):
        swap = raydium(*EXCHANGE)
        swap.data = swap.data[:1] + u64(random.getrandbits(40), random.getrandbits(40))
        assert len(decode(raydium_tx(swap)).swaps) == 1

    assert base58.common_head.cache_info().currsize < 100


def test_a_routed_swap_counts_once_without_the_routers_own_transfers() -> None:
    """Commission, platform fee and tip are paid below the router or beside it, not by a pool."""
    route = Ix(
        JUPITER,
        ["x", "y"],
        bytes.fromhex("e517cb977ae3ad2a"),
        [
            transfer("user a", "commission a", 5),
            raydium(*EXCHANGE),
            event(JUPITER, SELF_CALL + bytes.fromhex("40c6cde8260871e2") + bytes(112)),
            transfer("user b", "platform b", 2),
        ],
    )
    tip = lamports(USER, "tip", 1000)
    swaps = decode(raydium_tx(tip, route)).swaps

    assert amounts(swaps) == [(A, 100, B, 70)]
    assert (swaps[0].outer, swaps[0].inner, swaps[0].program) == (1, 1, "raydium_v4")


def test_an_unknown_program_under_a_router_is_an_amm_if_it_traded() -> None:
    amm = Ix("an unknown program", ["x", "y"], b"\x01\x02", list(EXCHANGE))
    idle = Ix("memo", ["x"], b"hello")
    lender = Ix(
        "lender",
        ["x"],
        b"\x03",
        [
            transfer("user a", "lender a", 9),
            transfer("lender b", "user b", 9),
            Ix("TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA", ["lp"], b"\x07" + u64(1)),
        ],
    )
    route = Ix(JUPITER, ["x"], bytes(8), [idle, amm, lender])
    tx = pool(users(Tx(route)), ("vault a", A), ("vault b", B), owner="amm owner")
    tx = pool(tx, ("lender a", A), ("lender b", B), owner="lender owner")
    swaps = decode(tx).swaps

    assert amounts(swaps) == [(A, 100, B, 70)]
    assert (swaps[0].program, swaps[0].inner) == (address("an unknown program"), 1)


def test_an_unknown_program_is_an_amm_at_any_depth() -> None:
    amm = Ix("an unknown program", ["x", "y"], b"\x01\x02", list(EXCHANGE))
    wrapper = Ix("a bot", ["x"], b"\x01", [amm])
    tx = pool(users(Tx(wrapper)), ("vault a", A), ("vault b", B), owner="o")
    (swap,) = decode(tx).swaps

    assert amounts([swap]) == [(A, 100, B, 70)]
    assert (swap.program, swap.recognised_by) == (address("an unknown program"), "transfers")
    assert swap.pool == "+".join(sorted([address("vault a"), address("vault b")]))


@pytest.mark.parametrize("word", ["stake", "deposit", "liquidate"])
def test_an_instruction_named_stake_deposit_or_liquidate_is_no_swap(word: str) -> None:
    """A stake with a reward moves two mints in and out of one owner's accounts, as a swap does."""
    head = hashlib.sha256(f"global:{word}".encode()).digest()[:8]
    farm = Ix("an unknown program", ["x"], head, list(EXCHANGE))
    tx = pool(users(Tx(farm)), ("vault a", A), ("vault b", B), owner="o")

    assert decode(tx) == ([], [], [], [])


@given(
    gained=st.integers(0, 2**50), other=st.integers(0, 2**50), is_added=st.booleans(),
    makes=st.booleans(),
)  # fmt: skip
def test_liquidity_that_is_added_or_removed_is_never_a_swap(
    gained: int, other: int, *, is_added: bool, makes: bool
) -> None:
    """This holds for any ratio, one or both mints, and with or without liquidity tokens.

    makes   whether the pool also makes or burns liquidity tokens
    """
    pairs = [("user a", "vault a", gained), ("user b", "vault b", other)]
    tokens = [transfer(*((u, v) if is_added else (v, u)), n) for u, v, n in pairs]
    if makes:
        accounts = ["lp", "user lp", "o"] if is_added else ["user lp", "lp", USER]
        tokens.append(Ix(SPL, accounts, bytes([7 if is_added else 8]) + (9).to_bytes(8, "little")))
    tx = pool(users(Tx(Ix("an unknown program", ["x"], b"\x01", tokens))), ("vault a", A),
              ("vault b", B), owner="o").holds("user lp", "lp", USER)  # fmt: skip

    assert decode(tx).swaps == []


def test_an_exchange_by_a_transfer_hook_below_a_router_gives_no_swap() -> None:
    hooked = transfer("user a", "user a2", 1, program=SPL_2022)
    hooked.calls = [Ix("hook", ["x"], b"\x01", list(EXCHANGE))]
    tx = pool(users(Tx(Ix(JUPITER, ["x"], bytes(8), [hooked]))), ("vault a", A), owner="o")

    assert decode(pool(tx, ("vault b", B), owner="o")) == ([], [], [], [])


def test_a_swap_is_read_if_the_router_holds_the_tokens_of_the_trader() -> None:
    """The router holds the tokens between hops, so no signer pays or is paid."""
    unknown = Ix("amm", ["x"], b"\x01", list(EXCHANGE))
    tx = Tx(Ix(JUPITER, ["x"], bytes(8), [unknown]), signers=("payer",))
    tx.holds("user a", A, "router").holds("user b", B, "router")
    (swap,) = decode(pool(tx, ("vault a", A), ("vault b", B), owner="pool")).swaps

    assert amounts([swap]) == [(A, 100, B, 70)]
    assert swap.signer == address("payer")


def test_a_liquidity_instruction_that_exchanges_two_mints_is_no_swap() -> None:
    """One mint goes in and the other out, but the instruction is not a swap."""
    assert decode(raydium_tx(raydium(*EXCHANGE, head=3))) == ([], [], [], [])


def test_buying_and_selling_in_one_transaction_is_two_swaps() -> None:
    back = (transfer("user b", "vault b", 70), transfer("vault a", "user a", 99))
    swaps = decode(raydium_tx(raydium(*EXCHANGE), raydium(*back))).swaps

    assert amounts(swaps) == [(A, 100, B, 70), (B, 70, A, 99)]


def test_the_mint_of_a_temporary_account_is_known_from_vault_or_opening() -> None:
    """An account that the transaction opens and closes has no balance before or after."""
    moved = [transfer("temporary", "vault a", 100), EXCHANGE[1]]
    tx = pool(Tx(raydium(*moved)), ("vault a", A), ("vault b", B), owner=RAYDIUM_AUTHORITY)
    assert amounts(decode(tx.holds("user b", B, USER)).swaps) == [(A, 100, B, 70)]

    owner_bytes = bytes(range(32))
    for opening in (
        Ix("TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA", ["temporary", WSOL, USER], b"\x01"),
        Ix(
            "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA",
            ["temporary", WSOL],
            b"\x10" + owner_bytes,
        ),
        Ix(
            "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA",
            ["temporary", WSOL],
            b"\x12" + owner_bytes,
        ),
    ):
        moved = [transfer("temporary", "unlisted vault", 100), EXCHANGE[1]]
        call = Ix(WHIRLPOOL, ["spl", USER, "unlisted vault"], SWAP + bytes(34), moved)
        whirl = Tx(opening, call).holds("user b", B, USER).holds("vault b", B, "unlisted vault")
        assert amounts(decode(whirl).swaps) == [(WSOL, 100, B, 70)]


def test_addresses_from_lookup_tables_follow_the_static_keys() -> None:
    loaded = ("vault a", "vault b", RAYDIUM_AUTHORITY, "amm", RAYDIUM_V4)
    route = Ix(JUPITER, ["x"], bytes(8), [raydium(*EXCHANGE)])
    (swap,) = decode(raydium_tx(route, loaded=loaded)).swaps

    assert amounts([swap]) == [(A, 100, B, 70)]
    assert swap.pool == address("amm")


@pytest.mark.parametrize("version", ["legacy", 0, 1, None])
def test_every_version_of_a_transaction_is_read(version: str | int | None) -> None:
    entry = raydium_tx(raydium(*EXCHANGE)).entry()
    entry["version"] = version
    if version == "legacy":
        del entry["version"], entry["meta"]["loadedAddresses"]

    assert len(decode_transaction(json.dumps(entry).encode(), 0).swaps) == 1


def test_transfers_without_stack_heights_belong_to_the_preceding_amm() -> None:
    second = Ix(
        WHIRLPOOL,
        ["spl", USER, "pool"],
        SWAP,
        [transfer("user b", "whirl b", 70), transfer("whirl c", "user c", 30)],
    )
    route = Ix(JUPITER, ["x"], bytes(8), [raydium(*EXCHANGE), second, transfer("user c", "fee", 1)])
    tx = pool(raydium_tx(route, has_heights=False), ("whirl b", B), ("whirl c", C), owner="pool")

    assert amounts(decode(tx).swaps) == [(A, 100, B, 70), (B, 70, C, 30)]


def test_transfers_of_zero_and_to_the_same_account_do_not_count() -> None:
    nothing = (transfer("user a", "vault a", 0), transfer("vault b", "user b", 0))
    to_itself = transfer("vault a", "vault a", 5)
    dust = (*EXCHANGE, transfer("vault b", "fee b", 0), to_itself)

    assert decode(raydium_tx(raydium(*nothing))) == ([], [], [], [])
    assert amounts(decode(raydium_tx(raydium(*dust))).swaps) == [(A, 100, B, 70)]


def test_amounts_keep_every_digit() -> None:
    most = 2**64 - 1
    moved = (transfer("user a", "vault a", most), transfer("vault b", "user b", most - 1))

    assert amounts(decode(raydium_tx(raydium(*moved))).swaps) == [(A, most, B, most - 1)]


def test_decimals_come_from_balances_or_from_checked_transfers() -> None:
    moved = (checked("user a", A, "vault a", 9, 255), checked("vault b", B, "user b", 8, 0))
    # All balances of one mint have the same decimals.
    tx = raydium_tx(raydium(*moved)).holds("vault b", B, RAYDIUM_AUTHORITY, 9)
    listed = decode(tx).swaps[0]
    tx = Tx(raydium(*moved)).holds("vault a", A, RAYDIUM_AUTHORITY, 6)
    tx.holds("vault b", C, RAYDIUM_AUTHORITY, 6)
    unlisted = decode(tx).swaps[0]

    assert (listed.in_decimals, listed.out_decimals) == (6, 9)
    assert (unlisted.in_decimals, unlisted.out_decimals) == (6, 0)


# --- fees of Token-2022 ----------------------------------------------------------------------


def fee_tx(*, named_fee: int, gained: int, again: bool = False) -> Tx:
    moved = [with_fee("user a", A, "vault a", 1000, named_fee), transfer("vault b", "user b", 70)]
    extra = [transfer("vault a", "someone", 0, program=SPL_2022)] if again else []
    tx = users(Tx(raydium(*moved), *extra))
    tx.holds("vault a", A, RAYDIUM_AUTHORITY, 6, before=5000, after=5000 + gained)
    return tx.holds("vault b", B, RAYDIUM_AUTHORITY, 9)


def test_the_amount_of_a_fee_mint_is_the_amount_that_reached_the_vault() -> None:
    """It is what the vault gained; if another call used the vault, the named fee is subtracted."""
    assert amounts(decode(fee_tx(named_fee=40, gained=960)).swaps) == [(A, 960, B, 70)]
    assert amounts(decode(fee_tx(named_fee=40, gained=955)).swaps) == [(A, 955, B, 70)]
    assert amounts(decode(fee_tx(named_fee=40, gained=955, again=True)).swaps) == [(A, 960, B, 70)]


def test_usdc_quotes_keep_their_decimals_without_a_balance() -> None:
    moved = (transfer("user a", "vault a", 5), transfer("vault u", "user u", 6))
    tx = pool(
        users(Tx(raydium(*moved))), ("vault a", A), ("vault u", USDC), owner=RAYDIUM_AUTHORITY
    )

    assert decode(tx).swaps[0].out_decimals == 6
