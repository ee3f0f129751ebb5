"""A transaction costs its sender one fee, so it must not take long to decode.

Each costly form is compared with a cheap one of the same size, so that the machine does not matter.
"""

from time import process_time
from typing import Final

from mintscope.dex.base58 import decode
from mintscope.dex.outcome import QuarantineReason
from support.scenes.json_transactions import decode_transaction
from support.scenes.made_transactions import (
    SPL,
    SPL_2022,
    USER,
    WSOL,
    Ix,
    Tx,
    address,
    batch,
    checked,
    lamports,
    transfer,
    u64,
)

RAYDIUM_V4 = "675kPX9MHTjS2zt1qfr1NYHuzeLXfQM9H24wFSUt1Mp8"
AUTHORITY = "5Q544fKrFoe6tsEbD7S8EmxGTJYAKtTVhAW5Q5pge4j1"
A, B, C = (address(f"mint {name}") for name in "ABC")
CALLS: Final = 62  # the most that a transaction can make
A_BATCH: Final = 85  # the most instructions of three accounts in a call
TIMES_MAX: Final = 10


def raydium(*calls: Ix) -> Ix:
    return Ix(RAYDIUM_V4, ["spl", "amm", AUTHORITY], b"\x09" + bytes(16), list(calls))


def seconds(tx: Tx, *, swaps: int = 1) -> float:
    """Return the shortest of three processor times in which this process decodes *tx*.

    swaps   the number of swaps that *tx* must have
    """
    raw = tx.raw()
    found = []
    for _ in range(3):
        began_s = process_time()
        decoded = decode_transaction(raw, 0)
        found.append(process_time() - began_s)
        assert len(decoded.swaps) == swaps
    return min(found)


def sent_by_parts(*, arrives: int) -> Tx:
    """Return a swap paid in parts of 1 and 3 units, of which *arrives* units reach the vault."""
    parts = [1 + 2 * (number % 2) for number in range(CALLS)]
    calls = [checked("user a", A, "vault a", part, program=SPL_2022) for part in parts]
    tx = Tx(raydium(*calls, transfer("vault b", "user b", 70)))
    tx.holds("user a", A, USER, before=1_000).holds("vault a", A, AUTHORITY, after=arrives)
    return tx.holds("user b", B, USER, 9).holds("vault b", B, AUTHORITY, 9)


def test_fees_of_many_transfers_are_found_quickly() -> None:
    """The mint withholds 100 %, but at most 1 unit, so no rate explains the sum of the fees."""
    costly = sent_by_parts(arrives=CALLS)
    cheap = sent_by_parts(arrives=2 * CALLS)
    assert seconds(costly) < TIMES_MAX * seconds(cheap)


def unwrapped(count: int, amount: int | None) -> Tx:
    """Return a swap paid by *count* UnwrapLamports of *amount*; None: of the whole balance."""
    data = b"\x2d" + (b"\x00" if amount is None else b"\x01" + u64(amount))
    unwraps = [Ix(SPL, ["vault sol", USER, AUTHORITY], data)] * count
    batches = [batch(*unwraps[at : at + A_BATCH]) for at in range(0, count, A_BATCH)]
    tx = Tx(raydium(transfer("user a", "vault a", 100), *batches))
    tx.holds("user a", A, USER).holds("vault a", A, AUTHORITY)
    return tx.holds("vault sol", WSOL, AUTHORITY, 9, before=5_000)


def test_many_unwraps_are_read_quickly() -> None:
    count = 10 * A_BATCH
    assert seconds(unwrapped(count, None)) < TIMES_MAX * seconds(unwrapped(count, 1))


def test_batches_with_too_many_instructions_are_quarantined() -> None:
    assert len(decode_transaction(unwrapped(999, None).raw(), 0).swaps) == 1
    decoded = decode_transaction(unwrapped(CALLS * A_BATCH, None).raw(), 0)
    assert decoded.swaps == []
    assert [one.reason for one in decoded.quarantined] == [QuarantineReason.MALFORMED_BATCH]


def reopening(owner: str) -> Tx:
    """Return 26 swaps and 450 openings of the trader's account; *owner* has a third vault."""
    close = Ix(SPL, ["user w", USER, USER], b"\x09")
    reopen = Ix(SPL, ["user w", A], b"\x12" + decode(address(USER)))
    moved = batch(transfer("user a", "vault a", 9), transfer("vault b", "user b", 9))
    calls = [raydium(moved)] * 26 + [batch(*[close, reopen] * 50)] * 9
    tx = Tx(Ix("bot", [USER, "vault c"], b"\x01", calls))
    tx.holds("user a", A, USER).holds("vault a", A, AUTHORITY).holds("vault c", A, owner)
    tx.holds("user b", B, USER).holds("vault b", B, AUTHORITY)
    return tx.holds("user w", A, USER)


def test_the_reopened_accounts_of_many_swaps_are_read_once() -> None:
    """New owners matter only if a pool has further accounts in the transaction."""
    cheap = seconds(reopening("someone"), swaps=26)
    assert seconds(reopening(AUTHORITY), swaps=26) < 4 * cheap


def gaining(lamports_each: int) -> Tx:
    """Return a swap beside 16 calls of an unlisted program, whose 18 signers gain lamports."""
    signers = tuple(f"signer {number}" for number in range(18))
    others = [f"other {number}" for number in range(45)]
    calls = [
        Ix("unlisted", [*signers, *others], b"\x07", [transfer("user c", "vault c", 5)])
        for _ in range(16)
    ]
    sent = [lamports("signer 0", other, 1) for other in others[:29]]
    swap = raydium(transfer("user a", "vault a", 9), transfer("vault b", "user b", 9))
    tx = Tx(Ix("bot", ["signer 0"], b"\x01", [*calls, *sent]), swap, signers=signers)
    tx.holds("user c", C, "signer 1").holds("vault c", C, "someone")
    tx.holds("user a", A, USER).holds("vault a", A, AUTHORITY)
    tx.holds("vault b", B, AUTHORITY).holds("user b", B, USER)
    for other in others:
        tx.with_lamports(other, 10**9, 10**9)
    for signer in signers:
        tx.with_lamports(signer, 10**9, 10**9 + lamports_each)
    return tx


def test_lamports_that_many_signers_gain_are_read_quickly() -> None:
    assert seconds(gaining(5)) < TIMES_MAX * seconds(gaining(-5))


def nested(data: bytes) -> Tx:
    """Return a swap beside calls of an unlisted program, seven levels deep, with different data."""
    calls = [
        Ix("inner", ["user"], data[:-1] + bytes([n]), [lamports("user", "o", 1)]) for n in range(20)
    ]
    calls.append(Ix("inner", ["user"], data, [transfer("user c", "vault c", 5)]))
    for _ in range(7):
        calls = [Ix("outer", ["user"], data, calls)]
    swap = raydium(transfer("user a", "vault a", 9), transfer("vault b", "user b", 9))
    tx = Tx(*calls, swap, signers=(USER, "user"))
    tx.holds("user c", C, "user").holds("vault c", C, "someone")
    tx.holds("user a", A, USER).holds("vault a", A, AUTHORITY)
    return tx.holds("vault b", B, AUTHORITY).holds("user b", B, USER)


def test_long_data_of_nested_calls_are_decoded_once() -> None:
    """The first digits of text determine eight bytes, except of rare data such as zeros."""
    before = b"\x07\x01\x02\x03\x04\x05\x06\x07"
    cheap = nested(before + b"\x55" * 10_000)
    assert seconds(nested(before + bytes(10_000))) < TIMES_MAX * seconds(cheap)
