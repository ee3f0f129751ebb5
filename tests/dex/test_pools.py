"""Pools of programs with partly known layouts: the account of the pool, or else its two vaults."""

import pytest

from mintscope.dex.outcome import Decoded
from support.scenes.json_transactions import decode_transaction
from support.scenes.made_transactions import (
    SPL,
    USER,
    WSOL,
    Ix,
    Tx,
    address,
    transfer,
)

A, B = address("mint A"), address("mint B")
BISONFI = "BiSoNHVpsVZW2F7rx2eQ59yQwKxzU5NvBcmKshCSUypi"
SECOND = "second signer"
PAIR = "+".join(sorted([address("vault a"), address("vault b")]))
EXCHANGE = [transfer("user b", "vault b", 1_000), transfer("vault a", "user a", 7_000)]


def decode(tx: Tx) -> Decoded:
    tx.holds("user a", A, USER).holds("user b", B, USER)
    tx.holds("vault a", A, "authority").holds("vault b", B, "authority")
    return decode_transaction(tx.raw(), 0)


def pools(decoded: Decoded) -> list[str]:
    assert decoded.quarantined == []
    return [str(swap.pool) for swap in decoded.swaps]


@pytest.mark.parametrize(
    ("second", "pool"),
    [("market", address("market")), (USER, PAIR), (SECOND, PAIR), (A, PAIR), (B, PAIR)],
    ids=["its layout", "the trader", "another signer", "the mint paid", "the mint received"],
)
def test_neither_a_signer_nor_a_mint_is_a_pool(second: str, pool: str) -> None:
    """In the public layout, the pool is the second account; other instructions may differ."""
    call = Ix(BISONFI, ["x", second, "vault a", "vault b"], b"\x07", EXCHANGE)

    assert pools(decode(Tx(call, signers=(USER, SECOND)))) == [pool]


@pytest.mark.parametrize("head", [b"\x09", b"\x2d\x00"], ids=["CloseAccount", "UnwrapLamports"])
def test_the_pool_includes_a_vault_that_pays_without_a_transfer(head: bytes) -> None:
    unwrapped = Ix(SPL, ["vault sol", USER, "authority"], head)
    sale = transfer("user a", "vault a", 700)
    tx = Tx(Ix("a venue", [USER, "vault a", "vault sol"], b"\x07", [sale, unwrapped]))
    tx.holds("vault sol", WSOL, "authority", 9, before=90)

    assert pools(decode(tx)) == ["+".join(sorted([address("vault a"), address("vault sol")]))]
