"""What moved under one call: transfers of tokens and of lamports, each with both owners."""

from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias

from mintscope.base.solana import WSOL
from mintscope.base.transaction import Instruction
from mintscope.core.dex.base58 import data_of
from mintscope.core.dex.events import U64
from mintscope.core.dex.outcome import QuarantineReason, Unreadable
from mintscope.core.dex.program import Call
from mintscope.core.dex.token_accounts import TokenAccounts

# First bytes of a transfer of tokens, and how it goes on: its least size, the position of the
# target among the accounts (1, or 2 where the mint stands between), and the offset of the amount.
# Decimals u8 and fee u64 follow the amount as far as the size goes.
SHAPES: Final = {
    b"\x03": (9, 1, 1),  # Transfer
    b"\x0c": (10, 2, 1),  # TransferChecked
    b"\x1a\x01": (19, 2, 2),  # TransferCheckedWithFee
}
SYSTEM_TRANSFER: Final = b"\x02\x00\x00\x00"
SYSTEM_TRANSFER_SIZE: Final = 12
FEE_AT: Final = 9  # after the amount and the decimals
PARTIES: Final = 2

Move: TypeAlias = tuple[str, str, str, int, int]
"""Source owner, target owner, mint, amount sent, amount received."""


def moves(call: Call, token_accounts: TokenAccounts) -> list[Move]:
    """Return every transfer of tokens and lamports under *call*."""
    found: list[Move] = []
    for instruction in call.tokens:
        data: Any = instruction.data  # bytes, see Call
        shape = SHAPES.get(data[:1]) or SHAPES.get(data[:2])
        if shape is not None:
            found.append(_move(data, shape, instruction.accounts, token_accounts))
    if call.lamports:
        found += _lamport_moves(call.lamports, token_accounts)
    return found


def _move(
    data: bytes, shape: tuple[int, int, int], accounts: Sequence[int], token_accounts: TokenAccounts
) -> Move:
    """Return the transfer that the token instruction *data* made between its *accounts*."""
    size, to, at = shape
    if len(data) < size or len(accounts) <= to:
        raise Unreadable(QuarantineReason.TRUNCATED_INSTRUCTION)
    (sent,) = U64(data, at)
    received = sent
    giver, taker = accounts[0], accounts[to]
    book = token_accounts.book
    source, target = book.get(giver), book.get(taker)
    if to > 1:
        mint = token_accounts.key(accounts[1])
        if size > at + FEE_AT and (fee := int.from_bytes(data[at + FEE_AT : size], "little")):
            received = token_accounts.arrived(taker, max(sent - fee, 0))
    elif source is not None:
        mint = source.mint
    elif target is not None:
        mint = target.mint
    else:
        mint = _temporary_mint(giver, taker, token_accounts)
    return (
        (source and source.owner) or token_accounts.key(giver),
        (target and target.owner) or token_accounts.key(taker),
        mint,
        sent,
        received,
    )


def _lamport_moves(
    instructions: list[Instruction], token_accounts: TokenAccounts
) -> Iterator[Move]:
    """Yield the transfers of lamports among *instructions* of the system program."""
    for instruction in instructions:
        data = data_of(instruction)
        if data[:4] != SYSTEM_TRANSFER:
            continue
        if len(data) < SYSTEM_TRANSFER_SIZE or len(instruction.accounts) < PARTIES:
            raise Unreadable(QuarantineReason.TRUNCATED_INSTRUCTION)
        sent = int.from_bytes(data[4:12], "little")
        giver, taker = instruction.accounts[:PARTIES]
        yield token_accounts.key(giver), token_accounts.key(taker), WSOL, sent, sent


def _temporary_mint(giver: int, taker: int, token_accounts: TokenAccounts) -> str:
    """Return the mint that moved between two accounts which both ended with the transaction."""
    token_accounts.complete()
    for account in (giver, taker):
        if balance := token_accounts.book.get(account):
            return balance.mint
    raise Unreadable(QuarantineReason.UNRESOLVED_MINT)
