"""A source that has bytes (protobuf) gets the same swaps as one that has base58 text (JSON)."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mintscope.dex.decode import decode_block
from mintscope.dex.outcome import Decoded
from mintscope.kit.primitives import Signature
from mintscope.solana.transaction import (
    Effects,
    InnerInstructions,
    Instruction,
    TokenAmount,
    TokenBalance,
    Transaction,
)
from mintscope_devchain.chain import Devchain
from support.oracles.devchain_blocks import NOW
from support.scenes.json_transactions import decode_transaction
from support.scenes.made_transactions import (
    ALPHABET,
    JUPITER,
    SYSTEM,
    WSOL,
    Ix,
    Tx,
    address,
    lamports,
    transfer,
    unb58,
    with_fee,
)

RAYDIUM = "675kPX9MHTjS2zt1qfr1NYHuzeLXfQM9H24wFSUt1Mp8"
AUTHORITY = "5Q544fKrFoe6tsEbD7S8EmxGTJYAKtTVhAW5Q5pge4j1"
TOKEN = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA"


def from_bytes(entry: dict[str, Any], index: int) -> Transaction:
    """Return *entry* as protobuf would hold it: no key, signature or data is text."""
    message, meta = entry["transaction"]["message"], entry["meta"]
    loaded = meta.get("loadedAddresses") or {"writable": [], "readonly": []}
    inner = meta["innerInstructions"]
    return Transaction(
        index=index,
        signature=_signature(entry["transaction"]["signatures"][0]),
        keys=[unb58(k) for k in message["accountKeys"] + loaded["writable"] + loaded["readonly"]],
        signer_count=message["header"]["numRequiredSignatures"],
        instructions=[_instruction(one) for one in message["instructions"]],
        inner=None
        if inner is None
        else [
            InnerInstructions(each["index"], [_instruction(one) for one in each["instructions"]])
            for each in inner
        ],
        balances=_balances(meta["postTokenBalances"]),
        read_earlier=lambda: _balances(meta["preTokenBalances"]),
        read_effects=lambda: Effects(
            meta["preBalances"], meta["postBalances"], meta["logMessages"]
        ),
    )


def _signature(text: str) -> Signature | bytes:
    """Return the bytes of signature *text*; a made-up name, as in a few recordings, unchanged."""
    return unb58(text) if set(text) <= set(ALPHABET) else Signature(text)


def _instruction(one: dict[str, Any]) -> Instruction:
    accounts, data = bytes(one["accounts"]), unb58(one["data"])
    return Instruction(accounts, data, one["programIdIndex"], one.get("stackHeight"))


def _balances(listed: list[dict[str, Any]]) -> list[TokenBalance]:
    return [
        TokenBalance(
            one["accountIndex"],
            one["mint"],
            one.get("owner"),
            TokenAmount(
                decimals=one["uiTokenAmount"]["decimals"], amount=one["uiTokenAmount"]["amount"]
            ),
        )
        for one in listed
    ]


def decoded_from_both(entry: dict[str, Any]) -> tuple[Decoded, Decoded]:
    """Decode the transaction *entry* from bytes and from JSON; return both results."""
    return (
        decode_block([from_bytes(entry, 3)]),
        decode_transaction(json.dumps(entry).encode(), 3),
    )


def test_recorded_transactions_decode_equally_from_bytes_and_json(shared_data: Path) -> None:
    folder = shared_data / "transactions"
    count = 0
    for line in (folder / "fixtures.jsonl").read_text().splitlines():
        entry = json.loads((folder / json.loads(line)["file"]).read_text())
        if entry["meta"]["err"] is None:
            bytes_, text = decoded_from_both(entry)
            assert bytes_ == text
            count += len(text.swaps)

    assert count == 91  # all swaps of the recorded transactions


@pytest.mark.storm
def test_devchain_transactions_decode_equally_from_bytes_and_json() -> None:
    """Blocks of the devchain have swaps of six programs, and routes; no recorded data is needed."""
    chain = Devchain(seed=5, now=NOW, mints=40, history_days=0)
    count = 0
    for _ in range(40):
        block = chain.blockstore.block(chain.tick())
        assert block is not None
        for entry in map(dict[str, Any], chain.entries(block)):
            if entry["meta"]["err"] is None:
                bytes_, text = decoded_from_both(entry)
                assert bytes_ == text
                count += len(text.swaps)

    assert count > 50


@pytest.mark.parametrize("loaded", [(), ("vault a", "amm")])
@pytest.mark.parametrize("signers", [("user",), ("payer", "user")])
def test_a_routed_swap_decodes_equally_from_bytes_and_json(
    signers: tuple[str, ...], loaded: tuple[str, ...]
) -> None:
    moved = [transfer("user a", "vault a", 100), transfer("vault b", "user b", 70)]
    accounts = ["spl", "amm", AUTHORITY, *(f"other {i}" for i in range(14))]
    swap = Ix(RAYDIUM, accounts, b"\x09" + bytes(16), moved)
    tx = Tx(Ix(JUPITER, ["x"], bytes(8), [swap]), signers=signers, loaded=loaded)
    tx.holds("user a", "A", "user").holds("user b", "B", "user")
    tx.holds("vault a", "A", AUTHORITY).holds("vault b", "B", AUTHORITY)

    bytes_, text = decoded_from_both(tx.entry())

    assert bytes_ == text
    (found,) = text.swaps
    assert (found.in_amount, found.out_amount, found.pool) == (100, 70, address("amm"))
    assert found.signer == address("user")


@pytest.mark.parametrize(
    "opened",
    [
        Ix(TOKEN, ["temporary", WSOL, "user"], b"\x01"),
        Ix(TOKEN, ["temporary", WSOL], b"\x12" + unb58(address("user"))),
    ],
)
def test_temporary_accounts_and_fee_mints_decode_equally_from_both_sources(opened: Ix) -> None:
    """The seller sells a mint with a transfer fee for wrapped SOL, paid to a temporary account."""
    moved = [with_fee("user a", "A", "vault a", 100, 3), transfer("vault b", "temporary", 70)]
    accounts = ["spl", "amm", AUTHORITY, *(f"other {i}" for i in range(14))]
    swap = Ix(RAYDIUM, accounts, b"\x09" + bytes(16), moved)
    tx = Tx(opened, lamports("user", "tip", 5), swap, signers=("payer", "user"))
    tx.holds("vault a", "A", AUTHORITY, before=5, after=102).holds("vault b", WSOL, AUTHORITY, 9)

    bytes_, text = decoded_from_both(tx.entry())

    assert bytes_ == text
    (found,) = text.swaps
    assert (found.in_amount, found.out_amount) == (97, 70)
    assert found.signer == address("user")


@settings(max_examples=100, derandomize=True, deadline=None)
@given(data=st.binary(max_size=40), program=st.sampled_from([TOKEN, SYSTEM, RAYDIUM]))
def test_any_instruction_decodes_equally_from_bytes_and_json(data: bytes, program: str) -> None:
    called = Ix(program, ["user a", "vault a", AUTHORITY], data)
    tx = Tx(Ix(RAYDIUM, ["spl", "amm", AUTHORITY], b"\x09" + bytes(16), [called]))

    bytes_, text = decoded_from_both(tx.holds("vault a", "A", AUTHORITY).entry())

    assert bytes_ == text
