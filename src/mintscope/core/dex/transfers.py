"""Swaps from what moved: the pool is the owner that received one mint and paid another.

Amounts are those of the pool's side.  Where the vaults' owner is not known
the trader's side is turned around.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias

from mintscope.base.solana import WSOL
from mintscope.base.transaction import Instruction
from mintscope.core.dex import events
from mintscope.core.dex.base58 import data_of
from mintscope.core.dex.events import U64
from mintscope.core.dex.outcome import QuarantineReason, Unreadable
from mintscope.core.dex.program import Call, Leg
from mintscope.core.dex.token_accounts import TokenAccounts, address
from mintscope.core.market.swap import Swap

# First bytes of a transfer of tokens, and how it goes on: its least size, the position of the
# target among the accounts (1, or 2 where the mint stands between), and the offset of the amount.
# Decimals u8 and fee u64 follow the amount as far as the size goes.
SHAPES: Final = {
    b"\x03": (9, 1, 1),  # Transfer
    b"\x0c": (10, 2, 1),  # TransferChecked
    b"\x1a\x01": (19, 2, 2),  # TransferCheckedWithFee
}
SUPPLY: Final = frozenset({b"\x07", b"\x08", b"\x0e", b"\x0f"})  # MintTo, Burn, and checked
SYSTEM_TRANSFER: Final = b"\x02\x00\x00\x00"
SYSTEM_TRANSFER_SIZE: Final = 12
FEE_AT: Final = 9  # after the amount and the decimals
PARTIES: Final = 2
U64_MAX: Final = 2**64 - 1

Move: TypeAlias = tuple[str, str, str, int, int]
"""Source owner, target owner, mint, amount sent, amount received."""

Exchange: TypeAlias = tuple[str, int, str, int]
"""Mint and amount received, mint and amount paid."""


def read(call: Call, legs: tuple[Leg, ...], token_accounts: TokenAccounts) -> list[Swap]:
    """Return one swap for each pool of *legs*, of every pool touched where there is none.

    Raises Unreadable where a pool did not give one mint for another.
    """
    if not legs or len(token_accounts.signers) > 1:
        token_accounts.complete()
    moved = moves(call, token_accounts)
    if not legs:
        return _each(call, moved, token_accounts)
    swaps = []
    for number, leg in enumerate(legs):
        flow = flow_of(moved, _owners(call, leg, token_accounts))
        exchange = exchange_of(flow)
        if exchange is not None:
            pool = (
                None
                if leg.pool is None
                else token_accounts.key(call.instruction.accounts[leg.pool])
            )
            swaps.append(swap_of(call, exchange, moved, token_accounts, leg=number, pool=pool))
        elif not flow or any(flow.values()):
            raise Unreadable(QuarantineReason.NO_MOVEMENT)
        # else the transfers were of nothing, and nothing was traded
    if call.events and not call.token_2022:
        # A fee mint moves less than the program counts, so the two may differ there.
        events.verify(call, swaps)
    return swaps


def read_closed(call: Call, legs: tuple[Leg, ...], token_accounts: TokenAccounts) -> list[Swap]:
    """Return the swap of a program that publishes nothing, if what moved is one.

    One mint in and one out is a swap; where a supply changed it is a deposit or a withdrawal.
    """
    if len(call.tokens) + len(call.lamports) < PARTIES or changes_supply(call):
        return []
    exchange = None
    moved = moves(call, token_accounts)
    if legs:
        exchange = exchange_of(flow_of(moved, _owners(call, legs[0], token_accounts)))
    if exchange is None:
        token_accounts.complete()
        moved = moves(call, token_accounts)
        exchange = _opposite(moved, token_accounts)
    if exchange is None:
        return []
    at = legs[0].pool if legs else None
    pool = None if at is None else token_accounts.key(call.instruction.accounts[at])
    return [swap_of(call, exchange, moved, token_accounts, leg=0, pool=pool)]


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


def _owners(call: Call, leg: Leg, token_accounts: TokenAccounts) -> tuple[str, ...]:
    """Return who owns the vaults of *leg*."""
    accounts = call.instruction.accounts
    if len(accounts) < leg.size:
        raise Unreadable(QuarantineReason.TRUNCATED_INSTRUCTION)
    if call.program.authority is not None:
        return (call.program.authority,)
    key, owners = token_accounts.key, leg.owners
    if len(owners) == 1:  # most pools own their vaults
        return (key(accounts[owners[0]]),)
    return tuple([key(accounts[owner]) for owner in owners])


def flow_of(moved: list[Move], owners: tuple[str, ...]) -> dict[str, int]:
    """Return what *owners* gained of each mint."""
    flow: dict[str, int] = {}
    for source, target, mint, sent, received in moved:
        if source in owners:
            flow[mint] = flow.get(mint, 0) - sent
        if target in owners:
            flow[mint] = flow.get(mint, 0) + received
    return flow


def exchange_of(flow: dict[str, int]) -> Exchange | None:
    """Return the one mint received and the one paid; None for any other flow."""
    changed = flow if len(flow) == PARTIES else {mint: gain for mint, gain in flow.items() if gain}
    if len(changed) != PARTIES:
        return None
    (one, gained), (other, lost) = changed.items()
    if gained < 0 < lost:
        return other, lost, one, -gained
    if lost < 0 < gained:
        return one, gained, other, -lost
    return None


def exchanges_of(moved: list[Move]) -> dict[str, Exchange]:
    """Return everyone who gave one mint for another, in the order they were touched."""
    parties = dict.fromkeys(owner for move in moved for owner in move[:PARTIES])
    found = {owner: exchange_of(flow_of(moved, (owner,))) for owner in parties}
    return {owner: exchange for owner, exchange in found.items() if exchange is not None}


def _each(call: Call, moved: list[Move], token_accounts: TokenAccounts) -> list[Swap]:
    """Return one swap for every pool touched, in that order; each owns its vaults."""
    exchanges = exchanges_of(moved)
    exchanges.pop(_initiator(exchanges, token_accounts), None)
    if not exchanges:
        raise Unreadable(QuarantineReason.NO_MOVEMENT)
    return [
        swap_of(call, exchange, moved, token_accounts, leg=leg, pool=pool)
        for leg, (pool, exchange) in enumerate(exchanges.items())
    ]


def _opposite(moved: list[Move], token_accounts: TokenAccounts) -> Exchange | None:
    """Return the side that is not the trader's, where the owner of the vaults is not known."""
    exchanges = exchanges_of(moved)
    if not exchanges:
        return None
    received, gained, paid, lost = exchanges.pop(_initiator(exchanges, token_accounts))
    match list(exchanges.values()):
        case []:
            return paid, lost, received, gained
        case [pool]:
            return pool
        case _:
            return None


def _initiator(exchanges: dict[str, Exchange], token_accounts: TokenAccounts) -> str:
    """Return who trades: a signer, or else (a router trades for its user) the first who pays."""
    for signer in token_accounts.signers:
        if signer in exchanges:
            return signer
    return next(iter(exchanges), "")


def _trader(exchange: Exchange, moved: list[Move], token_accounts: TokenAccounts) -> str:
    """Return the signer on the other side of *exchange*, else the fee payer."""
    signers = token_accounts.signers
    if len(signers) > 1:
        received, _, paid, _ = exchange
        for source, target, mint, _, _ in moved:
            if mint == received and source in signers:
                return source
            if mint == paid and target in signers:
                return target
    return signers[0]


def changes_supply(call: Call) -> bool:
    """Return whether tokens were made or destroyed under *call*."""
    return any(data_of(token)[:1] in SUPPLY for token in call.tokens)


def swap_of(  # noqa: PLR0913 - where, what and who
    call: Call,
    exchange: Exchange,
    moved: list[Move],
    token_accounts: TokenAccounts,
    *,
    leg: int,
    pool: str | None,
) -> Swap:
    """Return *exchange* as a swap of *call*.  Raises Unreadable for amounts beyond a u64."""
    received, gained, paid, lost = exchange
    if gained > U64_MAX or lost > U64_MAX:
        raise Unreadable(QuarantineReason.OVERFLOW)
    return Swap(
        token_accounts.signature,
        token_accounts.index,
        call.outer,
        call.inner,
        leg,
        call.program.name,
        pool,
        address(received),
        gained,
        token_accounts.decimals(received),
        address(paid),
        lost,
        token_accounts.decimals(paid),
        _trader(exchange, moved, token_accounts),
    )
