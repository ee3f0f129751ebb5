"""Bonding curves that keep SOL as lamports and pay sales without a transfer: Moonit, Trench.

The transactions are built from published layouts.  A `Scene` does its own accounting: it moves
lamports between accounts, adds a transfer only if the program would make one, and records the
swaps.
"""

from dataclasses import dataclass, field
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mintscope.dex.decode import decode_block
from mintscope.dex.outcome import Decoded, QuarantineReason
from mintscope.solana.yellowstone.transactions import read_info
from mintscope_devchain.stream.protobuf import to_protobuf
from support.scenes.json_transactions import decode_transaction
from support.scenes.made_transactions import (
    JUPITER,
    SPL,
    SYSTEM,
    USER,
    WSOL,
    Ix,
    Tx,
    address,
    lamports,
    transfer,
    u64,
    unb58,
)

MOONIT = "MoonCVVNZFSYkqNXP6bxHLPL6QQJiMagDL3qcqUQTrG"
TRENCH = "8ZoPDsvLWXthQaZz6aJJEWNFBZKk2ePuygi6LHT7F7Hh"
A = address("mint A")
Row = tuple[str, str | None, str, int, str, int]


def head(name: str) -> bytes:
    return sha256(f"global:{name}".encode()).digest()[:8]


@dataclass
class Scene:
    """A transaction on a bonding curve under construction; `rows` has the swaps that it makes."""

    program: str
    held: int = 10_000
    calls: list[Ix] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    signers: tuple[str, ...] = (USER,)

    def __post_init__(self) -> None:
        self.before = self.held

    def accounts(self) -> list[str]:
        """Return the accounts of a swap; the curve is Moonit's third account, or Trench's fifth."""
        if self.program == MOONIT:
            fees = ["dex fee", "helio fee"]
            return [USER, "user a", "curve", "vault a", *fees, A, "config", SPL, "ata", SYSTEM]
        first = [USER, "global", "config", A, "curve", "vault a", "user a", "creator"]
        return [*first, "creator vault", "cashback", SPL, "fee", "events", "x", "y", "z", SYSTEM]

    def buy(self, tokens: int, paid: int, name: str = "buy") -> None:
        accounts = self.accounts()
        if name == "buy_with_be_authority":
            accounts = ["backend", *accounts]
        moved = [
            transfer("vault a", "user a", tokens),
            lamports(USER, "curve", paid),
            lamports(USER, "dex fee" if self.program == MOONIT else "fee", paid // 100),
        ]
        self.call(Ix(self.program, accounts, head(name) + u64(tokens, paid), moved))
        self.held += paid
        self.rows.append((self.name, address("curve"), WSOL, paid, A, tokens))

    def sell(self, tokens: int, paid: int) -> None:
        """Add a sale, for which the curve pays lamports that no instruction shows."""
        moved = [transfer("user a", "vault a", tokens)]
        self.call(Ix(self.program, self.accounts(), head("sell") + u64(tokens, paid), moved))
        self.held -= paid
        self.rows.append((self.name, address("curve"), A, tokens, WSOL, paid))

    def tip(self, amount: int) -> None:
        self.call(lamports(USER, "curve", amount))
        self.held += amount

    def call(self, ix: Ix) -> None:
        self.calls.append(ix)

    @property
    def name(self) -> str:
        return "moonit" if self.program == MOONIT else "trench"

    def tx(self) -> Tx:
        tx = Tx(*self.calls, signers=self.signers)
        tx.holds("user a", A, USER).holds("vault a", A, "curve")
        return tx.with_lamports("curve", self.before, self.held).with_lamports(USER, 5_000, 9)


def decode(scene: Scene) -> Decoded:
    return decode_transaction(scene.tx().raw(), 0)


def rows(decoded: Decoded) -> list[Row]:
    return [
        (s.program, s.pool, s.in_mint, s.in_amount, s.out_mint, s.out_amount) for s in decoded.swaps
    ]


def reasons(decoded: Decoded) -> list[str]:
    return [one.reason for one in decoded.quarantined]


PROGRAMS = pytest.mark.parametrize("program", [MOONIT, TRENCH])


@PROGRAMS
def test_a_sale_pays_the_lamports_that_left_the_curve(program: str) -> None:
    scene = Scene(program)
    scene.sell(700, 321)
    decoded = decode(scene)

    assert rows(decoded) == scene.rows == [(scene.name, address("curve"), A, 700, WSOL, 321)]
    assert (decoded.swaps[0].signer, decoded.quarantined) == (address(USER), [])


@PROGRAMS
def test_a_swap_has_the_lamports_of_the_curve_as_its_reserve(program: str) -> None:
    """Without this reserve any pool with a balance would outweigh the curve."""
    sale, purchase = Scene(program), Scene(program)
    sale.sell(700, 321)
    purchase.buy(700, 300)
    (sold,) = decode(sale).swaps
    (bought,) = decode(purchase).swaps

    assert (sold.in_left, sold.out_left) == (0, 10_000 - 321)
    assert (bought.in_left, bought.out_left) == (10_300, 0)


@PROGRAMS
def test_a_sale_below_a_router_gives_the_same_swap(program: str) -> None:
    scene = Scene(program)
    scene.sell(700, 321)
    scene.calls = [Ix(JUPITER, [USER], bytes(8), scene.calls)]

    assert rows(decode(scene)) == scene.rows


@pytest.mark.parametrize(
    ("program", "name"),
    [
        (MOONIT, "buy"),
        (MOONIT, "buy_with_be_authority"),
        (TRENCH, "buy"),
        (TRENCH, "buy_exact_out"),
    ],
)
def test_a_purchase_is_read_from_its_transfers(program: str, name: str) -> None:
    scene = Scene(program)
    scene.buy(700, 300, name)

    assert rows(decode(scene)) == scene.rows


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("buy"), st.integers(1, 10**12), st.integers(100, 10**12)),
        st.tuples(st.just("tip"), st.just(0), st.integers(1, 10**6)),
        st.tuples(st.just("sell"), st.integers(1, 10**12), st.integers(1, 9_000)),
    ),
    min_size=1,
    max_size=5,
)


@PROGRAMS
@given(steps=STEPS)
def test_one_sale_among_purchases_is_exact_and_several_are_quarantined(
    program: str, steps: list[tuple[str, int, int]]
) -> None:
    scene = Scene(program, held=50_000)
    for kind, tokens, amount in steps:
        if kind == "buy":
            scene.buy(tokens, amount)
        elif kind == "sell":
            scene.sell(tokens, amount)
        else:
            scene.tip(amount)
    decoded = decode(scene)
    sales = sum(kind == "sell" for kind, _, _ in steps)

    if sales <= 1:
        assert (rows(decoded), decoded.quarantined) == (scene.rows, [])
    else:
        assert rows(decoded) == [row for row in scene.rows if row[2] == WSOL]
        assert reasons(decoded) == [QuarantineReason.SHARED_LAMPORTS] * sales


@PROGRAMS
def test_sales_on_two_curves_of_one_transaction_are_distinguished(program: str) -> None:
    scene = Scene(program)
    scene.sell(700, 321)
    words = {"curve": "curve 2", "vault a": "vault 2", "user a": "user a 2"}
    second = Ix(
        program,
        [words.get(word, word) for word in scene.accounts()],
        head("sell") + u64(50, 1),
        [transfer("user a 2", "vault 2", 50)],
    )
    scene.call(second)
    tx = scene.tx().holds("vault 2", address("mint B"), "curve 2")
    tx.holds("user a 2", address("mint B"), USER).with_lamports("curve 2", 1_000, 923)
    decoded = decode_transaction(tx.raw(), 0)

    assert [row[3:] for row in rows(decoded)] == [(700, WSOL, 321), (50, WSOL, 77)]


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(
            lambda scene: Ix(scene.program, ["admin", "curve"], head("migrate_funds")), id="program"
        ),
        pytest.param(
            lambda _: Ix(SPL, ["user sol", "curve", USER], b"\x09"), id="an account closed"
        ),
        pytest.param(lambda _: Ix(SPL, ["user sol", "curve", USER], b"\x2d\x00"), id="unwrapped"),
    ],
)
@PROGRAMS
def test_a_sale_is_quarantined_if_another_instruction_may_move_lamports(
    program: str, other: object
) -> None:
    scene = Scene(program)
    scene.sell(700, 321)
    assert callable(other)
    scene.call(other(scene))

    assert (rows(decode(scene)), reasons(decode(scene))) == ([], [QuarantineReason.SHARED_LAMPORTS])


@PROGRAMS
@pytest.mark.parametrize("after", [10_000, 10_001])
def test_a_sale_that_paid_nothing_is_quarantined(program: str, after: int) -> None:
    scene = Scene(program)
    scene.sell(700, 0)
    scene.held = after

    assert reasons(decode(scene)) == [QuarantineReason.NO_MOVEMENT]


@PROGRAMS
def test_swaps_are_exact_if_the_transaction_also_creates_the_curve(program: str) -> None:
    """A transfer from an account made with a seed adds to the curve like any other transfer."""
    scene = Scene(program, held=0)
    created = b"\0\0\0\0" + u64(1_000, 128) + unb58(program)
    seed = u64(4) + b"seed"
    seeded = b"\x03\0\0\0" + bytes(32) + seed + u64(400, 8) + unb58(program)
    scene.call(Ix(SYSTEM, [USER, "curve"], created))
    scene.call(Ix(SYSTEM, [USER, "curve"], seeded))
    scene.call(Ix(SYSTEM, ["seeded", USER, "curve"], b"\x0b\0\0\0" + u64(30) + seed + bytes(32)))
    scene.held = 1_430
    scene.buy(900, 500)
    scene.sell(700, 321)

    assert rows(decode(scene)) == scene.rows


def test_a_sale_without_recorded_lamports_is_quarantined() -> None:
    scene = Scene(MOONIT)
    scene.sell(700, 321)
    entry = scene.tx().raw().replace(b'"preBalances"', b'"noBalances"')
    malformed = scene.tx().raw().replace(b'"preBalances":[', b'"preBalances":["x",')

    assert reasons(decode_transaction(entry, 0)) == [QuarantineReason.NO_MOVEMENT]
    assert reasons(decode_transaction(malformed, 0)) == [QuarantineReason.MALFORMED]


def test_protobuf_gives_the_same_swap() -> None:
    scene = Scene(MOONIT)
    scene.sell(700, 321)
    info = to_protobuf(scene.tx().entry(), 3)
    read = read_info(info)
    assert read is not None

    assert rows(decode_block([read])) == scene.rows


@pytest.mark.parametrize(
    ("program", "name", "at", "pool"),
    [
        ("HEAVENoP2qxoeuF8Dj2oT1GHEnu49U5mJYkdeC8BAX2o", "heaven", (10, 11), 4),
        ("5U3EU2ubXtK84QcRjWVmYt9RaDyA8gKxdUrPFXmZyaki", "virtuals", (5, 8), 1),
    ],
)
@pytest.mark.parametrize("instruction", ["buy", "sell"])
def test_heaven_and_virtuals_move_tokens_through_vaults(
    program: str, name: str, at: tuple[int, int], pool: int, instruction: str
) -> None:
    accounts = [f"account {n}" for n in range(12)]
    accounts[at[0]], accounts[at[1]] = "vault a", "vault sol"
    moved = [transfer("user sol", "vault sol", 90), transfer("vault a", "user a", 7)]
    tx = Tx(Ix(program, accounts, head(instruction) + u64(1, 1), moved))
    tx.holds("user a", A, USER).holds("vault a", A, "authority")
    tx.holds("user sol", WSOL, USER).holds("vault sol", WSOL, "authority")

    expected = [(name, address(f"account {pool}"), WSOL, 90, A, 7)]
    assert rows(decode_transaction(tx.raw(), 0)) == expected
