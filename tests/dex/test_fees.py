"""Amounts of a mint of Token-2022 with a transfer fee: the gain and the loss of the vault.

The oracle applies the rule of the token program to the balances, transfer by transfer: a rate in
1/100 percent of the sent amount, rounded up, but at most the maximum fee, is withheld.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mintscope.dex.outcome import Decoded
from support.scenes.json_transactions import decode_transaction
from support.scenes.made_transactions import (
    JUPITER,
    SPL,
    SPL_2022,
    USER,
    Ix,
    Tx,
    address,
    batch,
    checked,
    hooked,
    transfer,
    u64,
    with_fee,
)

RAYDIUM_V4 = "675kPX9MHTjS2zt1qfr1NYHuzeLXfQM9H24wFSUt1Mp8"
AUTHORITY = "5Q544fKrFoe6tsEbD7S8EmxGTJYAKtTVhAW5Q5pge4j1"
SOLFI = "SoLFiHG9TfgtdUXUjWAxi3LtvYuFyDLVhBWxdMZxyCe"
TESSERA = "TessVdML9pBGgG9yGks7o4HewRaXVAMuoVj4x83GLQH"
A, B = address("mint A"), address("mint B")
Amounts = list[tuple[str, int, str, int]]


@dataclass
class FeeMint:
    """Mint A with a transfer fee; `send` returns a transfer, and applies it to the balances."""

    rate: int
    most: int = 2**64
    held: dict[str, int] = field(default_factory=dict)
    before: dict[str, int] = field(default_factory=dict)

    def fee(self, amount: int) -> int:
        return min(-(-amount * self.rate // 10_000), self.most)

    def send(
        self, source: str, target: str, amount: int, *, is_named: bool = False
    ) -> tuple[Ix, int]:
        """Return a transfer of *amount*, and the amount that arrives."""
        for account in (source, target):
            self.before.setdefault(account, 10**15)
            self.held.setdefault(account, 10**15)
        arrived = amount - self.fee(amount)
        self.held[source] -= amount
        self.held[target] += arrived
        if is_named:
            return with_fee(source, A, target, amount, self.fee(amount)), arrived
        return checked(source, A, target, amount, program=SPL_2022), arrived


def raydium(*calls: Ix) -> Ix:
    accounts = ["spl", "amm", AUTHORITY, "vault a", "vault b"]
    return Ix(RAYDIUM_V4, accounts, b"\x09" + bytes(16), list(calls))


def pooled(mint: FeeMint, *calls: Ix, owner: str | None = AUTHORITY) -> Tx:
    tx = Tx(*calls).holds("user b", B, USER, 9).holds("vault b", B, owner, 9)
    owners = {"user a": USER, "vault a": owner}
    for account, before in mint.before.items():
        holder = owners.get(account, "someone")
        tx.holds(account, A, holder, before=before, after=mint.held[account])
    return tx


def amounts(decoded: Decoded) -> Amounts:
    assert decoded.quarantined == []
    return [(s.in_mint, s.in_amount, s.out_mint, s.out_amount) for s in decoded.swaps]


def decode(tx: Tx) -> Amounts:
    return amounts(decode_transaction(tx.raw(), 0))


PAID = transfer("vault b", "user b", 70)


@pytest.mark.parametrize("is_named", [False, True])
@pytest.mark.parametrize("program", ["listed", "closed", "routed", "unlisted"])
def test_the_received_amount_is_the_gain_of_the_vault(program: str, is_named: bool) -> None:  # noqa: FBT001
    mint = FeeMint(rate=400)
    sent, arrived = mint.send("user a", "vault a", 1001, is_named=is_named)
    call = raydium(sent, PAID)
    if program == "closed":
        call = Ix(SOLFI, ["x", AUTHORITY], b"\x07", [sent, PAID])
    if program in {"routed", "unlisted"}:
        call = Ix("amm", ["x"], b"\x07", [sent, PAID])
    if program == "routed":
        call = Ix(JUPITER, ["x"], bytes(8), [call])

    assert arrived == 960
    assert decode(pooled(mint, call)) == [(A, 960, B, 70)]


def test_the_paid_amount_is_the_loss_of_the_vault() -> None:
    """The trader gets less, because the mint takes a fee, but the pool has paid the full amount."""
    mint = FeeMint(rate=400)
    paid, arrived = mint.send("vault a", "user a", 1000)

    assert arrived == 960
    assert decode(pooled(mint, raydium(transfer("user b", "vault b", 9), paid))) == [
        (B, 9, A, 1000)
    ]


@pytest.mark.parametrize("is_named", [False, True])
def test_vaults_without_a_known_owner_gain_the_arrived_amount(is_named: bool) -> None:  # noqa: FBT001
    """The amounts exclude the fee, which reached no vault; they are read from the trader's side."""
    mint = FeeMint(rate=400)
    sent, arrived = mint.send("user a", "vault a", 1000, is_named=is_named)
    call = Ix(TESSERA, ["x", "y"], b"\x10" + bytes(17), [sent, PAID])
    assert decode(pooled(mint, call, owner=None)) == [(A, arrived, B, 70)]

    paid, arrived = FeeMint(rate=400).send("vault a", "user a", 1000, is_named=is_named)
    call = Ix(TESSERA, ["x", "y"], b"\x10" + bytes(17), [transfer("user b", "vault b", 9), paid])
    assert decode(pooled(mint, call, owner=None)) == [(B, 9, A, 1000)]


OTHERS: dict[str, Ix] = {
    "MintTo": Ix(SPL_2022, [A, "vault a", "x"], b"\x07" + u64(13)),
    "MintToChecked": Ix(SPL_2022, [A, "vault a", "x"], b"\x0e" + u64(13) + b"\x06"),
    "Burn": Ix(SPL_2022, ["vault a", A, "x"], b"\x08" + u64(13)),
    "BurnChecked": Ix(SPL_2022, ["vault a", A, "x"], b"\x0f" + u64(13) + b"\x06"),
    "Approve": Ix(SPL_2022, ["vault a", "x", "y"], b"\x04" + u64(13)),
    "Revoke": Ix(SPL_2022, ["vault a", "y"], b"\x05"),
    "FreezeAccount": Ix(SPL_2022, ["vault a", A, "y"], b"\x0a"),
    "HarvestWithheldTokensToMint": Ix(SPL_2022, [A, "vault a"], b"\x1a\x04"),
    "a transfer of the owner's": transfer("someone's a", "another's a", 13, program=SPL_2022),
    "a transfer out": checked("vault a", A, "another's a", 13, program=SPL_2022),
}
GAINS = {"MintTo": 13, "MintToChecked": 13, "Burn": -13, "BurnChecked": -13, "a transfer out": -13}


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("is_batched", [False, True])
def test_other_changes_of_the_vault_do_not_affect_the_amount(other: str, is_batched: bool) -> None:  # noqa: FBT001
    """Another instruction, outside the swap, may change the vault's balance by a known amount."""
    mint = FeeMint(rate=250)
    sent, arrived = mint.send("user a", "vault a", 1000)
    mint.held["vault a"] += GAINS.get(other, 0)
    beside = batch(OTHERS[other], program=SPL_2022) if is_batched else OTHERS[other]
    swap = raydium(batch(sent, program=SPL_2022) if is_batched else sent, PAID)

    assert arrived == 975
    assert decode(pooled(mint, beside, swap)) == [(A, 975, B, 70)]


@pytest.mark.parametrize("head", ["1b05", "1a03", "ff01", "99"])
def test_an_unknown_instruction_on_the_vault_leaves_the_sent_amount(head: str) -> None:
    """Examples: a confidential deposit, a withdrawal of fees, a cut batch, an added instruction."""
    mint = FeeMint(rate=250)
    sent, _ = mint.send("user a", "vault a", 1000)
    beside = Ix(SPL_2022, ["vault a", "x"], bytes.fromhex(head))

    assert decode(pooled(mint, beside, raydium(sent, PAID))) == [(A, 1000, B, 70)]


@pytest.mark.parametrize(("before", "after"), [(0, 0), (50, 50), (0, 2000), (50, 0)])
def test_balances_that_no_fee_explains_leave_the_sent_amount(before: int, after: int) -> None:
    """The balance of the vault did not change, rose by more than was sent, or fell."""
    sent = checked("user a", A, "vault a", 1000, program=SPL_2022)
    tx = Tx(raydium(sent, PAID)).holds("user a", A, USER).holds("user b", B, USER, 9)
    tx.holds("vault a", A, AUTHORITY, before=before, after=after).holds("vault b", B, AUTHORITY, 9)

    assert decode(tx) == [(A, 1000, B, 70)]


def test_a_vault_without_a_recorded_balance_leaves_the_sent_amount() -> None:
    sent = checked("user a", A, "vault a", 1000, program=SPL_2022)
    call = Ix(SOLFI, ["x", "vault a"], b"\x07", [sent, transfer("vault b", "user b", 70)])
    tx = Tx(call).holds("user b", B, USER, 9).holds("vault b", B, "vault a", 9)

    assert decode(tx) == [(A, 1000, B, 70)]


def test_a_transfer_of_the_older_token_program_has_no_fee() -> None:
    """The token of the swap's other transfer belongs to Token-2022, and has no fee either."""
    sent = checked("user a", A, "vault a", 1000, program=SPL)
    paid = checked("vault b", B, "user b", 70, program=SPL_2022)
    tx = Tx(raydium(sent, paid)).holds("user a", A, USER).holds("user b", B, USER, 9)
    tx.holds("vault a", A, AUTHORITY, before=0, after=960).holds("vault b", B, AUTHORITY, 9)

    assert decode(tx) == [(A, 1000, B, 70)]


def test_the_fee_of_a_hooked_transfer_is_subtracted() -> None:
    mint = FeeMint(rate=250)
    sent, arrived = mint.send("user a", "vault a", 1000)
    hook = hooked(sent, transfer("user b", "hook b", 3))
    tx = pooled(mint, raydium(hook, PAID)).holds("hook b", B, "hook owner", 9)

    assert decode(tx) == [(A, arrived, B, 70)]


@settings(max_examples=200, deadline=None, derandomize=True)
@given(data=st.data(), rate=st.integers(1, 5_000), is_capped=st.booleans())
def test_a_reused_vault_gains_the_arrived_amount_of_each_swap(
    data: st.DataObject, rate: int, *, is_capped: bool
) -> None:
    """One transaction has several swaps in a pool, in both directions, with fees named or not."""
    mint = FeeMint(rate, most=data.draw(st.integers(1, 10**6)) if is_capped else 2**64)
    calls: list[Ix] = []
    expected: Amounts = []
    for _ in range(data.draw(st.integers(1, 4))):
        amount, is_named = data.draw(st.integers(100, 10**9)), data.draw(st.booleans())
        if data.draw(st.integers(0, 3)) > 0:
            sent, arrived = mint.send("user a", "vault a", amount, is_named=is_named)
            calls.append(raydium(sent, PAID))
            expected.append((A, arrived, B, 70))
        else:
            paid, _ = mint.send("vault a", "user a", amount, is_named=is_named)
            calls.append(raydium(transfer("user b", "vault b", 9), paid))
            expected.append((B, 9, A, amount))
    found = decode(pooled(mint, *calls))

    if mint.held["vault a"] == mint.before.get("vault a"):
        return  # no balance moved: nothing shows a fee
    if is_capped:
        # No record shows which of several fees met the maximum; their sum is exact.
        sums = [
            (sum(one[1] for one in swaps if one[0] == A), [one for one in swaps if one[0] == B])
            for swaps in (found, expected)
        ]
        assert sums[0] == sums[1]
    else:
        for one, other in zip(found, expected, strict=True):
            assert one[:1] + one[2:] == other[:1] + other[2:]
            assert abs(one[1] - other[1]) <= 1  # two rates may round to the same sum
        assert sum(one[1] for one in found) == sum(one[1] for one in expected)


# --- recorded --------------------------------------------------------------------------------


def recorded(shared_data: Path, folder: str, start: str) -> tuple[bytes, list[dict[str, Any]]]:
    path = shared_data / folder
    if not path.is_dir():
        pytest.skip(f"the recorded transactions are not there: {path}")
    (file,) = (path / "tx").glob(f"{start}*")
    lines = map(json.loads, (path / "expected_swaps.jsonl").read_text().splitlines())
    return file.read_bytes(), [line for line in lines if line["signature"] == file.stem]


def expected_of(lines: list[dict[str, Any]]) -> Amounts:
    return [
        (line["in_mint"], int(line["in_amount"]), line["out_mint"], int(line["out_amount"]))
        for line in lines
    ]


def test_a_recorded_fee_without_a_fee_instruction_is_subtracted(shared_data: Path) -> None:
    raw, lines = recorded(shared_data, "transactions_2026b", "2DAFiTzY")

    assert [line["gross_in_amount"] for line in lines] == ["24139725097425"]
    assert amounts(decode_transaction(raw, 0)) == expected_of(lines)


def test_a_recorded_fee_on_a_route_is_subtracted(shared_data: Path) -> None:
    """The recording expects the sent amount, 358,800; the decoder subtracts the fee: 344,448."""
    raw, lines = recorded(shared_data, "transactions", "2bhr1FWq")
    first, *others = expected_of(lines)

    assert first[1] == 358_800
    assert amounts(decode_transaction(raw, 0)) == [(first[0], 344_448, *first[2:]), *others]


@pytest.mark.parametrize(
    ("folder", "start"), [("transactions_2026", "ysZEH25d"), ("transactions_2026b", "5BDEC1rK")]
)
def test_swaps_with_recorded_transfer_hooks_have_the_expected_amounts(
    shared_data: Path, folder: str, start: str
) -> None:
    raw, lines = recorded(shared_data, folder, start)

    assert amounts(decode_transaction(raw, 0)) == expected_of(lines)


@pytest.mark.parametrize("kind", [0x14, 0x17, 0x18])
def test_an_instruction_that_names_the_vault_hides_no_fee(kind: int) -> None:
    """InitializeMint2, AmountToUiAmount and UiAmountToAmount accept further accounts."""
    swap = Ix(
        RAYDIUM_V4,
        ["spl", "amm", AUTHORITY],
        b"\x09" + bytes(16),
        [
            checked("user a", A, "vault a", 1_000, program=SPL_2022),
            transfer("vault b", "user b", 70),
        ],
    )
    named = Ix(SPL_2022, [A, "vault a"], bytes([kind]) + u64(5))
    tx = Tx(swap, named).holds("user a", A, USER, before=1_000)
    tx.holds("vault a", A, AUTHORITY, before=5_000, after=5_950)
    tx.holds("vault b", B, AUTHORITY, 9, before=100, after=30).holds("user b", B, USER, 9, after=70)

    (read,) = decode_transaction(tx.raw(), 0).swaps

    assert (read.in_amount, read.out_amount) == (950, 70)
