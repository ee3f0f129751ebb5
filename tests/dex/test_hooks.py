"""Transfer hooks below the transfers of Token-2022, and calls eight levels deep."""

import json
from typing import Any

import pytest

from mintscope.dex.decode import decode_block
from mintscope.dex.outcome import Decoded
from mintscope.solana.yellowstone import geyser_pb2
from mintscope.solana.yellowstone.transactions import ProtobufTransactions
from support.scenes.json_transactions import decode_transaction
from support.scenes.made_transactions import (
    JUPITER,
    SPL_2022,
    USER,
    WSOL,
    Ix,
    Tx,
    address,
    batch,
    checked,
    hooked,
    lamports,
    transfer,
    unb58,
)

RAYDIUM_V4 = "675kPX9MHTjS2zt1qfr1NYHuzeLXfQM9H24wFSUt1Mp8"
AUTHORITY = "5Q544fKrFoe6tsEbD7S8EmxGTJYAKtTVhAW5Q5pge4j1"
SOLFI = "SoLFiHG9TfgtdUXUjWAxi3LtvYuFyDLVhBWxdMZxyCe"
A, B = address("mint A"), address("mint B")
SENT = checked("user a", A, "vault a", 100, program=SPL_2022)
PAID = transfer("vault b", "user b", 70)
DEPTH = 9  # the height of a stack with eight calls below the top


def raydium(*calls: Ix) -> Ix:
    accounts = ["spl", "amm", AUTHORITY, "vault a", "vault b"]
    return Ix(RAYDIUM_V4, accounts, b"\x09" + bytes(16), list(calls))


def pooled(*calls: Ix, owner: str = AUTHORITY, **options: Any) -> Tx:
    tx = Tx(*calls, **options).holds("user a", A, USER).holds("user b", B, USER, 9)
    tx.holds("hook b", B, "hook owner", 9).holds("hook a", A, "hook owner")
    return tx.holds("vault a", A, owner).holds("vault b", B, owner, 9)


def protobuf(entry: dict[str, Any]) -> geyser_pb2.SubscribeUpdateTransactionInfo:
    """Return *entry* in the form of the gRPC stream."""
    info = geyser_pb2.SubscribeUpdateTransactionInfo(index=0)
    message, meta = info.transaction.message, info.meta
    given = entry["transaction"]["message"]
    reported = entry["meta"]
    info.signature = unb58(entry["transaction"]["signatures"][0])
    message.header.num_required_signatures = given["header"]["numRequiredSignatures"]
    message.account_keys.extend(unb58(key) for key in given["accountKeys"])
    for one in given["instructions"]:
        message.instructions.add(
            program_id_index=one["programIdIndex"],
            accounts=bytes(one["accounts"]),
            data=unb58(one["data"]),
        )
    for group in reported["innerInstructions"]:
        inner = meta.inner_instructions.add(index=group["index"])
        for one in group["instructions"]:
            inner.instructions.add(
                program_id_index=one["programIdIndex"],
                accounts=bytes(one["accounts"]),
                data=unb58(one["data"]),
                stack_height=one["stackHeight"],
            )
    for balances, listed in (
        (meta.pre_token_balances, reported["preTokenBalances"]),
        (meta.post_token_balances, reported["postTokenBalances"]),
    ):
        for one in listed:
            balance = balances.add(
                account_index=one["accountIndex"], mint=one["mint"], owner=one["owner"]
            )
            balance.ui_token_amount.amount = one["uiTokenAmount"]["amount"]
            balance.ui_token_amount.decimals = one["uiTokenAmount"]["decimals"]
    return info


def decode(tx: Tx) -> Decoded:
    """Return the decoded transaction; assert that JSON and protobuf give the same."""
    entry = tx.entry()
    from_json = decode_transaction(json.dumps(entry).encode(), 0)
    assert decode_block(ProtobufTransactions([protobuf(entry)])) == from_json
    return from_json


def amounts(decoded: Decoded) -> list[tuple[str, int, str, int]]:
    assert decoded.quarantined == []
    return [(s.in_mint, s.in_amount, s.out_mint, s.out_amount) for s in decoded.swaps]


HOOKS: dict[str, list[Ix]] = {
    "nothing": [],
    "a fee in another mint": [transfer("user b", "hook b", 3)],
    "a fee of the vault": [transfer("vault b", "hook b", 3)],
    "lamports": [lamports(USER, "vault b", 3)],
    "an exchange": [transfer("user b", "hook b", 3), transfer("hook a", "user a", 2)],
    "another hooked transfer": [
        hooked(
            checked("user b", B, "hook b", 3, program=SPL_2022), transfer("hook a", "vault a", 9)
        )
    ],
    "a batch": [batch(transfer("user b", "hook b", 3), transfer("hook a", "vault a", 9))],
    "what mints": [Ix(SPL_2022, ["x", "y", "z"], b"\x07" + bytes(8))],
}


@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize("is_routed", [False, True])
@pytest.mark.parametrize("program", ["listed", "closed", "unlisted"])
def test_transfers_of_a_hook_do_not_count_in_the_swap(
    hook: str,
    program: str,
    is_routed: bool,  # noqa: FBT001
) -> None:
    moved = [hooked(SENT, *HOOKS[hook]), PAID]
    call = raydium(*moved)
    if program != "listed":
        call = Ix(SOLFI if program == "closed" else "an amm", ["x", AUTHORITY], b"\x07", moved)
    tx = pooled(Ix(JUPITER, ["x"], bytes(8), [call]) if is_routed else call)

    assert amounts(decode(tx)) == [(A, 100, B, 70)]


@pytest.mark.parametrize("hook", HOOKS)
def test_a_hooked_transfer_outside_a_swap_gives_no_swap(hook: str) -> None:
    """The hooked transfer is at the top level, below a router, in a batch, or below a deposit."""
    moved = hooked(SENT, *HOOKS[hook])
    deposit = raydium(moved)
    deposit.data = b"\x03" + bytes(16)
    for call in (moved, batch(moved, program=SPL_2022), deposit):
        tx = pooled(Ix(JUPITER, ["x"], bytes(8), [call]), raydium(SENT, PAID))
        assert amounts(decode(tx)) == [(A, 100, B, 70)]
        assert amounts(decode(pooled(call, raydium(SENT, PAID)))) == [(A, 100, B, 70)]


def test_a_swap_made_by_a_hook_is_read() -> None:
    """Here the hook sells its fee in a pool: this call of a DEX is read like any other."""
    sold = raydium(transfer("hook b", "vault b", 3), transfer("vault a", "hook a", 2))
    hook = hooked(SENT, transfer("user b", "hook b", 3), sold)
    decoded = decode(pooled(raydium(hook, PAID)))

    assert amounts(decoded) == [(A, 100, B, 70), (B, 3, A, 2)]


def test_a_hook_in_a_batch_does_not_change_the_swap() -> None:
    moved = batch(
        hooked(SENT, transfer("user b", "hook b", 3)),
        Ix(SPL_2022, PAID.accounts, PAID.data),
        program=SPL_2022,
    )

    assert amounts(decode(pooled(raydium(moved)))) == [(A, 100, B, 70)]


@pytest.mark.parametrize("depth", range(2, DEPTH + 1))
@pytest.mark.parametrize("is_hooked", [False, True])
def test_a_swap_is_read_at_every_call_depth_of_the_chain(depth: int, is_hooked: bool) -> None:  # noqa: FBT001
    """The swap's transfers are at height *depth*; a hook and its transfer are below them."""
    sent = hooked(SENT, transfer("user b", "hook b", 3)) if is_hooked else SENT
    call = raydium(sent, PAID)
    for level in range(depth - 2):
        below = [transfer("user b", "hook b", level), call, transfer("hook b", "user b", level)]
        call = Ix(JUPITER if level == 0 else f"wrapper {level}", ["x"], bytes(8), below)
    tx = pooled(call)
    heights = [
        one["stackHeight"]
        for group in tx.entry()["meta"]["innerInstructions"]
        for one in group["instructions"]
    ]

    assert max(heights) == depth + 2 * is_hooked
    assert amounts(decode(tx)) == [(A, 100, B, 70)]


def test_wrapped_sol_paid_by_a_hook_to_the_pool_is_not_the_traders_payment() -> None:
    """Only transfers by the swap program itself count, for the payment and for the proceeds."""
    hook = hooked(SENT, transfer("user sol", "vault sol", 5))
    tx = pooled(raydium(hook, PAID)).holds("user sol", WSOL, USER, 9)

    assert amounts(decode(tx.holds("vault sol", WSOL, AUTHORITY, 9))) == [(A, 100, B, 70)]
