"""Wrapped SOL that leaves its account as lamports, and lamports that become wrapped SOL.

Layouts: CloseAccount 09 (account, destination, owner); UnwrapLamports 2d and 0 for all, or 1 and a
u64 (source, destination, authority); WithdrawExcessLamports 26 (the same, never wrapped SOL);
SyncNative 11 (account).
"""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mintscope.dex.outcome import QuarantineReason
from support.scenes.json_transactions import decode_transaction
from support.scenes.made_transactions import (
    JUPITER,
    SPL,
    SPL_2022,
    SYSTEM,
    USER,
    WSOL,
    Ix,
    Tx,
    address,
    batch,
    lamports,
    transfer,
    u64,
    unb58,
)

RAYDIUM_V4 = "675kPX9MHTjS2zt1qfr1NYHuzeLXfQM9H24wFSUt1Mp8"
AUTHORITY = "5Q544fKrFoe6tsEbD7S8EmxGTJYAKtTVhAW5Q5pge4j1"
SOLFI = "SoLFiHG9TfgtdUXUjWAxi3LtvYuFyDLVhBWxdMZxyCe"
TESSERA = "TessVdML9pBGgG9yGks7o4HewRaXVAMuoVj4x83GLQH"
A = address("mint A")
RESERVE = 2_039_280
Amounts = list[tuple[str, int, str, int]]


def close(account: str, target: str, owner: str = AUTHORITY) -> Ix:
    return Ix(SPL, [account, target, owner], b"\x09")


def unwrap(account: str, target: str, amount: int | None, owner: str = AUTHORITY) -> Ix:
    data = b"\x2d" + (b"\x00" if amount is None else b"\x01" + u64(amount))
    return Ix(SPL, [account, target, owner], data)


def sync(account: str) -> Ix:
    return Ix(SPL, [account], b"\x11")


def create(account: str, owner: str, payer: str = USER) -> list[Ix]:
    """Return instructions that create *account* with just its rent, and open it for wrapped SOL."""
    space = u64(RESERVE, 165) + unb58(SPL)
    made = Ix(SYSTEM, [payer, account], bytes(4) + space)
    return [made, Ix(SPL, [account, WSOL], b"\x12" + unb58(address(owner)))]


def raydium(*calls: Ix) -> Ix:
    return Ix(RAYDIUM_V4, ["spl", "amm", AUTHORITY], b"\x09" + bytes(16), list(calls))


def swap_call(program: str, *calls: Ix) -> Ix:
    """Return a call of a program of the kind *program*, with *calls* inside.

    program   "listed"; "unlisted", below a router; "owned", without a public layout but with a
              known vault owner; or "closed", without either
    """
    if program == "listed":
        return raydium(*calls)
    if program == "unlisted":
        return Ix(JUPITER, ["x"], bytes(8), [Ix("amm", ["x"], b"\x07", list(calls))])
    return Ix(SOLFI if program == "owned" else TESSERA, ["x", AUTHORITY], b"\x07", list(calls))


def pooled(*calls: Ix, **options: Any) -> Tx:
    tx = Tx(*calls, **options).holds("user a", A, USER).holds("vault a", A, AUTHORITY)
    return tx.holds("vault sol", WSOL, AUTHORITY, 9, before=500, after=500)


def decode(tx: Tx) -> Amounts:
    decoded = decode_transaction(tx.raw(), 0)
    assert decoded.quarantined == []
    return [(s.in_mint, s.in_amount, s.out_mint, s.out_amount) for s in decoded.swaps]


SENT = transfer("user a", "vault a", 100)
PROGRAMS = ("listed", "owned", "closed", "unlisted")
EACH_PROGRAM = pytest.mark.parametrize("program", PROGRAMS)
PAYOUTS: dict[str, list[Ix]] = {
    "UnwrapLamports": [unwrap("vault sol", USER, 70)],
    "UnwrapLamports of all": [unwrap("full vault", USER, None)],
    "a temporary account": [
        *create("temporary", AUTHORITY),
        transfer("vault sol", "temporary", 70),
        close("temporary", USER),
    ],
    "a temporary account that gives its rent back": [
        *create("temporary", AUTHORITY),
        transfer("vault sol", "temporary", 70),
        unwrap("temporary", USER, None),
        close("temporary", USER),
    ],
    "an account that was there": [transfer("vault sol", "before", 60), close("before", USER)],
    "in two parts": [unwrap("vault sol", USER, 30), unwrap("vault sol", USER, 40)],
    "a friend of the user": [unwrap("vault sol", "friend", 70)],
    "the user's account of wrapped SOL": [unwrap("vault sol", "user sol", 70), sync("user sol")],
}
# If no account names the owner of the vaults, only the trader's receipt shows their payment.
FRIEND = "a friend of the user"
PAID = [(payout, one) for payout in PAYOUTS for one in PROGRAMS[: 2 if payout == FRIEND else 4]]


@pytest.mark.parametrize(("payout", "program"), PAID)
@pytest.mark.parametrize("is_batched", [False, True])
def test_lamports_paid_by_a_vault_count_as_wrapped_sol(
    payout: str,
    program: str,
    is_batched: bool,  # noqa: FBT001
) -> None:
    paid = PAYOUTS[payout]
    tokens = [one for one in paid if one.program == SPL]
    others = [one for one in paid if one.program != SPL]
    moved = [*others, batch(SENT, *tokens)] if is_batched else [SENT, *paid]
    tx = pooled(swap_call(program, *moved)).holds("full vault", WSOL, AUTHORITY, 9, before=70)
    tx.holds("user sol", WSOL, USER, 9, before=1, after=71)
    assert decode(closed(tx, "before", AUTHORITY, 10)) == [(A, 100, WSOL, 70)]


def closed(tx: Tx, account: str, owner: str, before: int) -> Tx:
    """Let *account* hold wrapped SOL only before the transaction, which closes it; return *tx*."""
    tx.holds(account, WSOL, owner, 9, before=before)
    entry = tx.entry

    def without_it() -> dict[str, Any]:
        made = entry()
        after = made["meta"]["postTokenBalances"]
        after[:] = [one for one in after if one["accountIndex"] != tx.words.get(account)]
        return made

    tx.entry = without_it  # type: ignore[method-assign]
    return tx


PAYMENTS: dict[str, list[Ix]] = {
    "UnwrapLamports to the owner of the vaults": [unwrap("user sol", AUTHORITY, 100, USER)],
    "CloseAccount to it": [close("closed sol", AUTHORITY, USER)],
    "lamports to the vault": [lamports(USER, "vault sol", 100), sync("vault sol")],
    "lamports by way of the user's account": [
        lamports(USER, "user sol", 100),
        sync("user sol"),
        transfer("user sol", "vault sol", 100),
    ],
}


@EACH_PROGRAM
@pytest.mark.parametrize("payment", PAYMENTS)
def test_lamports_paid_by_a_trader_count_as_wrapped_sol(payment: str, program: str) -> None:
    call = swap_call(program, *PAYMENTS[payment], transfer("vault a", "user a", 70))
    tx = pooled(call).holds("user sol", WSOL, USER, 9, before=300, after=200)

    assert decode(closed(tx, "closed sol", USER, 100)) == [(WSOL, 100, A, 70)]


SOLD = transfer("vault sol", "user sol", 70)
OWN_BUSINESS: dict[str, list[Ix]] = {
    "closed to its owner": [close("user sol", USER, USER)],
    "unwrapped to its owner": [unwrap("user sol", USER, 7, USER)],
    "unwrapped to the relayer": [unwrap("user sol", "relayer", 7, USER)],
    "closed to the relayer": [close("user sol", "relayer", USER)],
    "WithdrawExcessLamports": [Ix(SPL, ["vault a", USER, AUTHORITY], b"\x26")],
    "an account of other tokens closed": [close("user other", AUTHORITY, USER)],
    "SyncNative alone": [sync("vault sol"), sync("user sol")],
    "an account opened": create("temporary", USER),
}


@EACH_PROGRAM
@pytest.mark.parametrize("also", OWN_BUSINESS)
@pytest.mark.parametrize("is_batched", [False, True])
def test_other_uses_of_the_traders_wrapped_sol_do_not_change_the_swap(
    also: str,
    program: str,
    is_batched: bool,  # noqa: FBT001
) -> None:
    tokens = [one for one in OWN_BUSINESS[also] if one.program == SPL]
    others = [one for one in OWN_BUSINESS[also] if one.program != SPL]
    moved = [*others, batch(SENT, SOLD, *tokens)] if is_batched else [SENT, SOLD, *others, *tokens]
    tx = pooled(swap_call(program, *moved)).holds("user other", address("mint B"), USER, before=5)
    tx.holds("user sol", WSOL, USER, 9)

    assert decode(tx) == [(A, 100, WSOL, 70)]


@pytest.mark.parametrize("program", [SPL, SPL_2022])
def test_a_batch_that_closes_the_users_account_does_not_change_the_swap(program: str) -> None:
    """Wallets place this batch at the top level, outside the swap."""
    after = batch(Ix(program, ["user sol", USER, USER], b"\x09"), program=program)
    tx = pooled(raydium(SENT, SOLD), after)

    assert decode(closed(tx, "user sol", USER, 0)) == [(A, 100, WSOL, 70)]


def test_an_account_opened_and_closed_twice_pays_its_own_amount_each_time() -> None:
    calls = []
    for paid in (70, 50):
        moved = [*create("temporary", AUTHORITY), transfer("vault sol", "temporary", paid)]
        calls.append(raydium(SENT, *moved, batch(close("temporary", USER))))

    assert decode(pooled(*calls)) == [(A, 100, WSOL, 70), (A, 100, WSOL, 50)]


def test_lamports_before_an_account_is_opened_are_its_reserve() -> None:
    """The 70 lamports that the exchange then adds are its amount, whenever SyncNative is called."""
    opened = create("temporary", AUTHORITY)[1]
    moved = [opened, transfer("vault sol", "temporary", 70), sync("temporary")]
    call = raydium(SENT, *moved, close("temporary", USER))

    assert decode(pooled(lamports(USER, "temporary", RESERVE), call)) == [(A, 100, WSOL, 70)]


@pytest.mark.parametrize(
    "cut",
    [
        Ix(SPL, ["vault sol", USER, AUTHORITY], b"\x2d\x01" + bytes(7)),
        Ix(SPL, ["vault sol"], b"\x2d\x00"),
        Ix(SPL, ["vault sol"], b"\x09"),
    ],
)
def test_a_cut_instruction_is_quarantined(cut: Ix) -> None:
    decoded = decode_transaction(pooled(raydium(SENT, cut)).raw(), 0)

    assert decoded.swaps == []
    assert [q.reason for q in decoded.quarantined] == [QuarantineReason.TRUNCATED_INSTRUCTION]


@settings(max_examples=200, deadline=None, derandomize=True)
@given(data=st.data(), before=st.integers(0, 100), is_batched=st.booleans())
def test_the_paid_amount_is_all_sol_that_left_the_account_until_it_closed(
    data: st.DataObject, before: int, *, is_batched: bool
) -> None:
    """The test computes the balance of the pool's account, instruction by instruction."""
    unsynced = data.draw(st.integers(0, 100))
    given = lamports("someone", "temporary", unsynced)
    held, left, calls = before, 0, []
    for _ in range(data.draw(st.integers(0, 6))):
        amount = data.draw(st.integers(0, 100))
        match data.draw(st.sampled_from(["in", "out", "unwrap", "unwrap all", "sync"])):
            case "in":
                held += amount
                calls.append(transfer("vault sol", "temporary", amount))
            case "out":
                amount = min(amount, held)
                held, left = held - amount, left + amount
                calls.append(transfer("temporary", "user sol", amount))
            case "unwrap":
                amount = min(amount, held)
                held, left = held - amount, left + amount
                calls.append(unwrap("temporary", USER, amount))
            case "unwrap all":
                held, left = 0, left + held
                calls.append(unwrap("temporary", USER, None))
            case _:
                held, unsynced = held + unsynced, 0
                calls.append(sync("temporary"))
    moved = [SENT, *calls, close("temporary", USER)]
    tx = pooled(given, raydium(batch(*moved)) if is_batched else raydium(*moved))
    tx = closed(tx.holds("user sol", WSOL, USER, 9), "temporary", AUTHORITY, before)

    if held + left:
        assert decode(tx) == [(A, 100, WSOL, held + left)]
