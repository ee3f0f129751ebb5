"""The decoder has a sound result for any bytes, and each of its reasons to quarantine occurs."""

import copy
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mintscope.dex.outcome import Decoded, QuarantineReason
from support.scenes.json_transactions import decode_block, decode_transaction
from support.scenes.made_transactions import (
    JUPITER,
    SELF_CALL,
    USER,
    Ix,
    Tx,
    address,
    b58,
    checked,
    event,
    lamports,
    transfer,
    u64,
    unb58,
    with_fee,
)

PUMPFUN = "6EF8rrecthR5Dkzon8Nwu78hRvfCKubJ14M5uBEwF6P"
PUMPSWAP = "pAMMBay6oceH9fJKBRHGP5D4bD4sWpmSwMn52FMfXEA"
RAYDIUM_V4 = "675kPX9MHTjS2zt1qfr1NYHuzeLXfQM9H24wFSUt1Mp8"
RAYDIUM_AUTHORITY = "5Q544fKrFoe6tsEbD7S8EmxGTJYAKtTVhAW5Q5pge4j1"
SOLFI = "SoLFiHG9TfgtdUXUjWAxi3LtvYuFyDLVhBWxdMZxyCe"
BUY = bytes.fromhex("66063d1201daebea")
A, B = address("mint A"), address("mint B")
MINT = b58(bytes(range(100, 132)))


def everything() -> Tx:
    """Return one transaction with swaps of five programs, read from transfers or events."""
    amm = ["spl", "amm", RAYDIUM_AUTHORITY]
    swap = Ix(
        RAYDIUM_V4,
        amm,
        b"\x09" + bytes(16),
        [with_fee("user a", A, "vault a", 100, 4), checked("vault b", B, "user b", 70, 9)],
    )
    reported = struct.pack("<32sQQ?", unb58(MINT), 9, 400, True)  # noqa: FBT003 - is_buy
    bought = Ix(
        PUMPFUN,
        ["global", "fee", MINT, "curve", "curve tokens", "user tokens", USER],
        BUY + bytes(16),
        [
            lamports(USER, "curve", 9),
            transfer("curve tokens", "user tokens", 400),
            event(PUMPFUN, SELF_CALL + bytes.fromhex("bddb7fd34ee661ee") + reported),
        ],
    )
    fields = bytearray(300)
    fields[8:16], fields[96:104] = u64(70), u64(100)
    pumped = Ix(
        PUMPSWAP,
        ["pool", USER],
        BUY + bytes(16),
        [
            transfer("user a", "pump a", 100),
            transfer("pump b", "user b", 70),
            event(PUMPSWAP, SELF_CALL + bytes.fromhex("67f4521f2cf57777") + fields),
        ],
    )
    closed = Ix(
        SOLFI, ["x", "owner"], b"\x07", [transfer("user a", "o a", 5), transfer("o b", "user b", 4)]
    )
    route = Ix(
        JUPITER, ["x"], bytes(8), [swap, closed, Ix("unknown", ["x"], b"\x01", closed.calls)]
    )
    opened = Ix("TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA", ["t", A, USER], b"\x01")
    tx = Tx(opened, route, bought, pumped, signers=(USER, "second"), loaded=("vault a", "vault b"))
    tx.holds("user a", A, USER).holds("user b", B, USER)
    tx.holds("vault a", A, RAYDIUM_AUTHORITY, after=96).holds("vault b", B, RAYDIUM_AUTHORITY)
    tx.holds("pump a", A, "pool").holds("pump b", B, "pool")
    return tx.holds("o a", A, "owner").holds("o b", B, "owner")


def is_sound(decoded: Decoded) -> bool:
    """Return whether all amounts, mints, decimals and reasons in *decoded* are possible ones."""
    return all(
        0 < swap.in_amount < 2**64
        and 0 < swap.out_amount < 2**64
        and swap.in_mint != swap.out_mint
        and len(unb58(swap.in_mint)) == len(unb58(swap.out_mint)) == 32
        and all(d is None or 0 <= d <= 255 for d in (swap.in_decimals, swap.out_decimals))
        for swap in decoded.swaps
    ) and all(one.reason in QuarantineReason.__members__.values() for one in decoded.quarantined)


def test_the_transaction_for_mutation_has_swaps_of_five_programs() -> None:
    decoded = decode_transaction(everything().raw(), 0)

    assert [s.program for s in decoded.swaps] == [
        *("raydium_v4", "solfi", address("unknown"), "pumpfun", "pumpswap")
    ]
    assert decoded.quarantined == []


# --- mutation --------------------------------------------------------------------------------

ODD: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.sampled_from([-1, -256, 0, 1, 2, 3, 17, 254, 255, 256, 2**63, 2**64]),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8),
    st.sampled_from(["", "1", "2", "0OIl", "z" * 44, "z" * 700, A, RAYDIUM_V4, PUMPFUN]),
    st.binary(max_size=40).map(b58),
    st.just([]),
    st.just({}),
    st.lists(st.integers(0, 255), max_size=4),
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path, as keys and indices, of every value nested in the JSON document *value*."""
    inside = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    found = [path] if path else []
    for key, one in inside:
        found += places(one, (*path, key))
    return found


def mutate(entry: dict[str, Any], data: st.DataObject) -> None:
    """Replace, delete or repeat a random part of *entry*."""
    path = data.draw(st.sampled_from(places(entry)))
    at: Any = entry
    for key in path[:-1]:
        at = at[key]
    match data.draw(st.sampled_from(["replace", "delete", "repeat"])):
        case "replace":
            at[path[-1]] = data.draw(ODD)
        case "delete":
            del at[path[-1]]
        case _:
            if isinstance(at, list):
                at.append(copy.deepcopy(at[path[-1]]))


@pytest.mark.storm
@settings(max_examples=400, deadline=None, derandomize=True)
@given(st.data())
def test_any_changed_transaction_gives_a_sound_result(data: st.DataObject) -> None:
    entry = everything().entry()
    for _ in range(data.draw(st.integers(1, 4))):
        mutate(entry, data)

    assert is_sound(decode_transaction(json.dumps(entry).encode(), 0))


@pytest.mark.storm
@settings(max_examples=250, deadline=None, derandomize=True)
@given(st.data())
def test_any_changed_bytes_give_a_sound_result(data: st.DataObject) -> None:
    raw = bytearray(everything().raw())
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(raw) - 1))
        match data.draw(st.sampled_from(["change", "cut", "insert"])):
            case "change":
                raw[at] = data.draw(st.integers(0, 255))
            case "cut":
                del raw[at : at + data.draw(st.integers(1, 40))]
            case _:
                raw[at:at] = data.draw(st.binary(max_size=8))

    assert is_sound(decode_transaction(bytes(raw), 0))


@pytest.mark.storm
@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.binary(max_size=200))
def test_random_bytes_give_no_swap(raw: bytes) -> None:
    decoded = decode_transaction(raw, 7)

    assert decoded.swaps == []
    assert all(one.transaction_index == 7 for one in decoded.quarantined)


@pytest.mark.storm
@settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.data())
def test_any_changed_recorded_transaction_gives_a_sound_result(
    shared_data: Path, data: st.DataObject
) -> None:
    files = sorted((shared_data / "transactions" / "tx").glob("*.json"))
    entry = json.loads(data.draw(st.sampled_from(files)).read_bytes())
    for _ in range(data.draw(st.integers(1, 5))):
        mutate(entry, data)

    assert is_sound(decode_transaction(json.dumps(entry).encode(), 0))


def test_a_malformed_transaction_does_not_affect_the_rest_of_its_block() -> None:
    good = msgspec.Raw(everything().raw())
    block = decode_block([good, msgspec.Raw(b"{}"), msgspec.Raw(b'{"transaction":7}'), good])

    assert [s.transaction_index for s in block.swaps] == [0] * 5 + [3] * 5
    assert [(q.transaction_index, q.reason) for q in block.quarantined] == [
        (1, QuarantineReason.MALFORMED),
        (2, QuarantineReason.MALFORMED),
    ]


# --- reasons ---------------------------------------------------------------------------------


def raydium(*calls: Ix, accounts: int = 3) -> Tx:
    call = Ix(
        RAYDIUM_V4, ["spl", "amm", RAYDIUM_AUTHORITY][:accounts], b"\x09" + bytes(16), list(calls)
    )
    tx = Tx(call).holds("user a", A, USER).holds("user b", B, USER)
    return tx.holds("vault a", A, RAYDIUM_AUTHORITY).holds("vault b", B, RAYDIUM_AUTHORITY)


GIVEN = transfer("user a", "vault a", 100)
TAKEN = transfer("vault b", "user b", 70)


def changed(change: Callable[[dict[str, Any]], object]) -> bytes:
    entry = raydium(GIVEN, TAKEN).entry()
    change(entry)
    return json.dumps(entry).encode()


def message(entry: dict[str, Any]) -> Any:
    return entry["transaction"]["message"]


def called(entry: dict[str, Any]) -> Any:
    return entry["meta"]["innerInstructions"][0]["instructions"]


def short(ix: Ix, *, data: int | None = None, accounts: int | None = None) -> Ix:
    return Ix(ix.program, ix.accounts[:accounts], ix.data[:data])


def pumpswap(fields: bytes) -> bytes:
    reported = event(PUMPSWAP, SELF_CALL + bytes.fromhex("67f4521f2cf57777") + fields)
    moved = [transfer("user a", "pump a", 100), transfer("pump b", "user b", 70), reported]
    tx = Tx(Ix(PUMPSWAP, ["pool", USER], BUY, moved)).holds("user a", A, USER)
    return tx.holds("pump a", A, "pool").holds("pump b", B, "pool").raw()


def pumpfun(fields: bytes, accounts: int = 7) -> bytes:
    reported = event(PUMPFUN, SELF_CALL + bytes.fromhex("bddb7fd34ee661ee") + fields)
    names = ["global", "fee", MINT, "curve", "curve tokens", "user tokens", USER]
    return Tx(Ix(PUMPFUN, names[:accounts], BUY, [reported])).raw()


def enriched(entry: dict[str, Any], amount: int | str) -> dict[str, Any]:
    """Set the token balance of every account after the transaction to *amount*; return *entry*."""
    for balance in entry["meta"]["postTokenBalances"]:
        balance["uiTokenAmount"]["amount"] = str(amount)
    return entry


FULL = struct.pack("<32sQQ?", unb58(MINT), 9, 400, True)  # noqa: FBT003 - is_buy


def two_owners() -> Tx:
    """Return an exchange with an unlisted program whose two vaults have two owners."""
    tx = Tx(Ix("unlisted", ["x"], b"\x01", [GIVEN, TAKEN]))
    tx.holds("user a", A, USER).holds("user b", B, USER)
    return tx.holds("vault a", A, "one").holds("vault b", B, "another")


def shared_curve() -> bytes:
    """Return a transaction with a sale on a Moonit curve, and a call that may take its lamports."""
    moonit = "MoonCVVNZFSYkqNXP6bxHLPL6QQJiMagDL3qcqUQTrG"
    data = bytes.fromhex("33e685a4017f83ad") + bytes(24)
    sale = Ix(moonit, [USER, "user a", "curve", "vault a"], data, [GIVEN])
    other = Ix(moonit, ["admin", "fees", "curve"], bytes(8))
    tx = Tx(sale, other).holds("user a", A, USER).holds("vault a", A, "curve")
    return tx.with_lamports("curve", 9_000, 8_000).raw()


def cut_log() -> bytes:
    """Return a transaction of Manifest whose log is cut, although only the log shows the fills."""
    tx = Tx(Ix("MNFSTqtC93rEfYHB6hF82sKdZpUDFWkViLByLd1k1Ms", [USER, "market"], b"\x06"))
    tx.log = ["Log truncated"]
    return tx.raw()


REASONS: dict[str, tuple[bytes, QuarantineReason]] = {
    "nothing": (b"", QuarantineReason.MALFORMED),
    "half": (raydium(GIVEN, TAKEN).raw()[:900], QuarantineReason.MALFORMED),
    "not utf-8": (
        raydium(GIVEN, TAKEN).raw().replace(b"signatures", b"\xff"),
        QuarantineReason.MALFORMED,
    ),
    "nested without end": (b'{"x":' + b"[" * 100_000, QuarantineReason.MALFORMED),
    "another shape": (b'{"transaction":"base64","meta":null}', QuarantineReason.MALFORMED),
    "no signature": (
        changed(lambda e: e["transaction"]["signatures"].clear()),
        QuarantineReason.MALFORMED,
    ),
    "index below zero": (
        changed(lambda e: called(e)[0].update(programIdIndex=-1)),
        QuarantineReason.MALFORMED,
    ),
    "index above a byte": (
        changed(lambda e: called(e)[0].update(accounts=[256])),
        QuarantineReason.MALFORMED,
    ),
    "decimals above a byte": (
        changed(
            lambda e: e["meta"]["postTokenBalances"][0].update(uiTokenAmount={"decimals": 256})
        ),
        QuarantineReason.MALFORMED,
    ),
    "inner at the top": (
        changed(lambda e: called(e)[0].update(stackHeight=1)),
        QuarantineReason.MALFORMED,
    ),
    "unknown version": (changed(lambda e: e.update(version=9)), QuarantineReason.UNKNOWN_VERSION),
    "unknown instruction": (
        changed(lambda e: message(e)["instructions"][0].update(data=b58(bytes([99]) + bytes(16)))),
        QuarantineReason.UNKNOWN_INSTRUCTION,
    ),
    "cut log": (cut_log(), QuarantineReason.TRUNCATED_LOG),
    "shared lamports": (shared_curve(), QuarantineReason.SHARED_LAMPORTS),
    "no meta": (changed(lambda e: e.update(meta=None)), QuarantineReason.NO_META),
    "no inner": (
        changed(lambda e: e["meta"].update(innerInstructions=None)),
        QuarantineReason.NO_INNER_INSTRUCTIONS,
    ),
    "outer program beyond": (
        changed(lambda e: message(e)["instructions"][0].update(programIdIndex=200)),
        QuarantineReason.UNKNOWN_ACCOUNT,
    ),
    "inner program beyond": (
        changed(lambda e: called(e)[0].update(programIdIndex=255)),
        QuarantineReason.UNKNOWN_ACCOUNT,
    ),
    "account beyond": (
        changed(lambda e: called(e)[0]["accounts"].__setitem__(1, 200)),
        QuarantineReason.UNKNOWN_ACCOUNT,
    ),
    "pool beyond": (
        changed(lambda e: message(e)["instructions"][0].update(accounts=[0, 250, 2])),
        QuarantineReason.UNKNOWN_ACCOUNT,
    ),
    "bad digit": (changed(lambda e: called(e)[0].update(data="3O0l")), QuarantineReason.BAD_BASE58),
    "bad digit far in": (
        changed(lambda e: called(e)[0].update(data="3" * 90 + "l")),
        QuarantineReason.BAD_BASE58,
    ),
    "more than an instruction can hold": (
        changed(lambda e: called(e)[0].update(data="3" * 20_000)),
        QuarantineReason.BAD_BASE58,
    ),
    "cut transfer": (
        raydium(short(GIVEN, data=8), TAKEN).raw(),
        QuarantineReason.TRUNCATED_INSTRUCTION,
    ),
    "transfer of one": (
        raydium(short(GIVEN, accounts=1), TAKEN).raw(),
        QuarantineReason.TRUNCATED_INSTRUCTION,
    ),
    "cut batch": (
        raydium(GIVEN, TAKEN, Ix(GIVEN.program, ["user a"], b"\xff\x01\x02\x09")).raw(),
        QuarantineReason.MALFORMED_BATCH,
    ),
    "cut lamports": (
        raydium(GIVEN, TAKEN, short(lamports(USER, "x", 1), data=11)).raw(),
        QuarantineReason.TRUNCATED_INSTRUCTION,
    ),
    "cut fee": (
        raydium(short(with_fee("user a", A, "vault a", 9, 1), data=18)).raw(),
        QuarantineReason.TRUNCATED_INSTRUCTION,
    ),
    "swap without its pool": (
        raydium(GIVEN, TAKEN, accounts=1).raw(),
        QuarantineReason.TRUNCATED_INSTRUCTION,
    ),
    "curve without its user": (pumpfun(FULL, accounts=4), QuarantineReason.TRUNCATED_INSTRUCTION),
    "cut event": (pumpswap(bytes(90)), QuarantineReason.TRUNCATED_EVENT),
    "cut trade": (pumpfun(FULL[:40]), QuarantineReason.TRUNCATED_EVENT),
    "other amounts": (pumpswap(bytes(300)), QuarantineReason.EVENT_DISAGREES),
    "other mint": (pumpfun(b"\x01" + FULL[1:]), QuarantineReason.EVENT_DISAGREES),
    "tokens for nothing": (pumpfun(FULL[:32] + u64(0) + FULL[40:]), QuarantineReason.NO_MOVEMENT),
    "unlisted accounts": (
        raydium(transfer("p", "q", 1), TAKEN).raw(),
        QuarantineReason.UNRESOLVED_MINT,
    ),
    "no address": (
        changed(lambda e: [b.update(mint="not base58") for b in e["meta"]["postTokenBalances"]]),
        QuarantineReason.NO_MOVEMENT,
    ),
    "a mint of 31 bytes": (
        changed(
            lambda e: [
                b.update(mint=b58(b"\x09" * 31))
                for b in e["meta"]["postTokenBalances"]
                if b["mint"] == A
            ]
        ),
        QuarantineReason.UNRESOLVED_MINT,
    ),
    "more than a mint": (
        raydium(*[transfer("user a", "vault a", 2**64 - 1)] * 2, TAKEN).raw(),
        QuarantineReason.OVERFLOW,
    ),
    "a balance beyond a mint": (
        json.dumps(
            enriched(raydium(with_fee("user a", A, "vault a", 100, 4), TAKEN).entry(), 10**30)
        ).encode(),
        QuarantineReason.OVERFLOW,
    ),
    "an invalid balance": (
        json.dumps(
            enriched(raydium(with_fee("user a", A, "vault a", 100, 4), TAKEN).entry(), "much")
        ).encode(),
        QuarantineReason.MALFORMED,
    ),
    "vaults of two owners": (two_owners().raw(), QuarantineReason.UNKNOWN_EXCHANGE),
    "one side": (raydium(GIVEN).raw(), QuarantineReason.NO_MOVEMENT),
    "past the pool": (
        raydium(transfer("user a", "account of a friend", 1)).raw(),
        QuarantineReason.NO_MOVEMENT,
    ),
    "between two mints": (
        raydium(transfer("user a", "user b", 1)).raw(),
        QuarantineReason.UNRESOLVED_MINT,
    ),
}


@pytest.mark.parametrize("case", REASONS)
def test_an_unreadable_transaction_gives_its_reason(case: str) -> None:
    raw, reason = REASONS[case]
    decoded = decode_transaction(raw, 0)

    assert decoded.swaps == []
    assert [one.reason for one in decoded.quarantined] == [reason]


def test_every_reason_is_reached() -> None:
    """DECODER_BUG is left out: it means that the decoder failed, which no transaction may cause."""
    reached = {reason for _, reason in REASONS.values()}
    assert reached == set(QuarantineReason) - {QuarantineReason.DECODER_BUG}


@pytest.mark.parametrize("required", [0, 1, 200])
def test_every_swap_has_a_signer_for_any_number_of_required_signatures(required: int) -> None:
    entry = everything().entry()
    message(entry)["header"]["numRequiredSignatures"] = required
    decoded = decode_transaction(json.dumps(entry).encode(), 0)

    assert len(decoded.swaps) == 5
    assert {swap.signer for swap in decoded.swaps} <= set(message(entry)["accountKeys"])


def test_a_failed_transaction_gives_an_empty_result() -> None:
    def fail(entry: dict[str, Any]) -> None:
        entry["meta"]["err"] = {"InstructionError": [0, {"Custom": 6001}]}

    assert decode_transaction(changed(fail), 0) == ([], [], [], [])
    assert decode_transaction(changed(lambda e: e["meta"].update(err="AccountInUse")), 0) == (
        [],
        [],
        [],
        [],
    )


def test_one_malformed_call_does_not_hide_the_other_calls() -> None:
    good = raydium(GIVEN, TAKEN).calls[0]
    bad = raydium(GIVEN).calls[0]
    tx = raydium()
    tx.calls = [bad, good]
    decoded = decode_transaction(tx.raw(), 3)

    assert [(s.outer, s.in_amount) for s in decoded.swaps] == [(1, 100)]
    assert [(q.program, q.reason, q.transaction_index) for q in decoded.quarantined] == [
        ("raydium_v4", QuarantineReason.NO_MOVEMENT, 3)
    ]
