"""Swaps from what moved: the pool is whoever received one mint and paid another.

Amounts are those of the pool's side.  Where the vaults' owner is not known
the trader's side is turned around.
"""

from typing import Final, NamedTuple, TypeAlias

from mintscope.dex import base58, events
from mintscope.dex.entry import Instruction
from mintscope.dex.ledger import Ledger, address
from mintscope.dex.outcome import Reason, Unreadable
from mintscope.dex.program import Call, Leg
from mintscope.market.swap import Swap
from mintscope.solana import WSOL



class Shape(NamedTuple):
    """A token transfer: where its fields are.

    sub      second byte, where the first names only a family
    target   position of the receiving account; source is 0, a mint in between is 1
    amount   offset of the u64; then decimals u8 and fee u64, as far as `size` goes
    """

    size: int
    target: int
    amount: int
    sub: bytes | None = None


SHAPES: Final = {
    b"\x03": Shape(9, target=1, amount=1),  # Transfer
    b"\x0c": Shape(10, target=2, amount=1),  # TransferChecked
    b"\x1a": Shape(19, target=2, amount=2, sub=b"\x01"),  # TransferCheckedWithFee
}
SUPPLY: Final = frozenset({b"\x07", b"\x08", b"\x0e", b"\x0f"})  # MintTo, Burn, and checked
SYSTEM_TRANSFER: Final = b"\x02\x00\x00\x00"
SYSTEM_TRANSFER_SIZE: Final = 12
PARTIES: Final = 2

Move: TypeAlias = tuple[str, str, str, int, int]
"""Source owner, target owner, mint, amount sent, amount received."""

Exchange: TypeAlias = tuple[str, int, str, int]
"""Mint and amount received, mint and amount paid."""


def read(call: Call, legs: tuple[Leg, ...], ledger: Ledger) -> list[Swap]:
    """Return one swap for each pool of *legs*, of every pool touched where there is none.

    Raises Unreadable where a pool did not give one mint for another.
    """
    moved = moves(call, ledger)
    if not legs:
        return _each(call, moved, ledger)
    swaps = []
    for position, leg in enumerate(legs):
        flow = _flow(moved, _owners(call, leg, ledger))
        exchange = _exchange(flow)
        if exchange is None:
            if flow and not any(flow.values()):
                continue  # transfers of nothing: nothing was traded
            raise Unreadable(Reason.NO_MOVEMENT)
        swaps.append(_swap(call, position, leg.pool, exchange, moved, ledger))
    if call.events and not call.token_2022:
        # A fee mint moves less than the program counts, so the two may differ there.
        events.verify(call, swaps)
    return swaps


def read_closed(call: Call, legs: tuple[Leg, ...], ledger: Ledger) -> list[Swap]:
    """Return the swap of a program that publishes nothing, if what moved is one.

    One mint in and one out is a swap; where a supply changed it is a deposit or a withdrawal.
    """
    if len(call.tokens) + len(call.lamports) < PARTIES or _changes_supply(call):
        return []
    moved = moves(call, ledger)
    for leg in legs:
        exchange = _exchange(_flow(moved, _owners(call, leg, ledger)))
        if exchange is not None:
            return [_swap(call, 0, leg.pool, exchange, moved, ledger)]
    exchange = _opposite(moved, ledger)
    return [] if exchange is None else [_swap(call, 0, None, exchange, moved, ledger)]


def moves(call: Call, ledger: Ledger) -> list[Move]:
    """Return every transfer of tokens and lamports under *call*."""
    found: list[Move] = []
    for instruction in call.tokens:
        data = base58.decode(instruction.data)
        shape = SHAPES.get(data[:1])
        if shape is None or (shape.sub is not None and data[1:2] != shape.sub):
            continue
        accounts = instruction.accounts
        if len(data) < shape.size or len(accounts) <= shape.target:
            raise Unreadable(Reason.TRUNCATED_INSTRUCTION)
        source, mint = ledger.holder(accounts[0])
        target, other = ledger.holder(accounts[shape.target])
        at = shape.amount
        sent = received = int.from_bytes(data[at : at + 8], "little")
        if shape.target == 1:
            mint = mint or other
            if not mint:
                raise Unreadable(Reason.UNRESOLVED_MINT)
        else:
            mint = ledger.key(accounts[1])
            ledger.decimals[mint] = data[at + 8]
            if fee := int.from_bytes(data[at + 9 : shape.size], "little"):
                received = ledger.arrived(accounts[2], max(sent - fee, 0))
        found.append((source, target, mint, sent, received))
    for instruction in call.lamports:
        data = base58.decode(instruction.data)
        if data[:4] == SYSTEM_TRANSFER:
            if len(data) < SYSTEM_TRANSFER_SIZE or len(instruction.accounts) < PARTIES:
                raise Unreadable(Reason.TRUNCATED_INSTRUCTION)
            sent = int.from_bytes(data[4:12], "little")
            source, target = (ledger.key(a) for a in instruction.accounts[:PARTIES])
            found.append((source, target, WSOL, sent, sent))
    return found


def amount(instruction: Instruction) -> int | None:
    """Return how much a token *instruction* sends; None if it is not a transfer."""
    data = base58.decode(instruction.data)
    shape = SHAPES.get(data[:1])
    if shape is None or (shape.sub is not None and data[1:2] != shape.sub):
        return None
    return int.from_bytes(data[shape.amount : shape.amount + 8], "little")


def _owners(call: Call, leg: Leg, ledger: Ledger) -> tuple[str, ...]:
    """Return who owns the vaults of *leg*."""
    if call.program.authority is not None:
        return (call.program.authority,)
    accounts = call.instruction.accounts
    if max(leg.owners, default=0) >= len(accounts):
        raise Unreadable(Reason.TRUNCATED_INSTRUCTION)
    return tuple([ledger.key(accounts[owner]) for owner in leg.owners])


def _flow(moved: list[Move], owners: tuple[str, ...]) -> dict[str, int]:
    """Return what *owners* gained of each mint."""
    flow: dict[str, int] = {}
    for source, target, mint, sent, received in moved:
        if source in owners:
            flow[mint] = flow.get(mint, 0) - sent
        if target in owners:
            flow[mint] = flow.get(mint, 0) + received
    return flow


def _exchange(flow: dict[str, int]) -> Exchange | None:
    """Return the one mint received and the one paid; None for any other flow."""
    changed = [(mint, gain) for mint, gain in flow.items() if gain]
    if len(changed) != PARTIES:
        return None
    (one, gained), (other, lost) = changed
    if gained < 0 < lost:
        return other, lost, one, -gained
    if lost < 0 < gained:
        return one, gained, other, -lost
    return None


def _exchanges(moved: list[Move]) -> dict[str, Exchange]:
    """Return everyone who gave one mint for another, in the order they were touched."""
    parties = dict.fromkeys(owner for move in moved for owner in move[:PARTIES])
    found = {owner: _exchange(_flow(moved, (owner,))) for owner in parties}
    return {owner: exchange for owner, exchange in found.items() if exchange is not None}


def _each(call: Call, moved: list[Move], ledger: Ledger) -> list[Swap]:
    """Return one swap for every pool touched, in that order; each owns its vaults."""
    exchanges = _exchanges(moved)
    exchanges.pop(_initiator(exchanges, ledger), None)
    if not exchanges:
        raise Unreadable(Reason.NO_MOVEMENT)
    return [
        _swap(call, leg, None, exchange, moved, ledger)._replace(pool=pool)
        for leg, (pool, exchange) in enumerate(exchanges.items())
    ]


def _opposite(moved: list[Move], ledger: Ledger) -> Exchange | None:
    """Return the side that is not the trader's, where the owner of the vaults is not known."""
    exchanges = _exchanges(moved)
    if not exchanges:
        return None
    received, gained, paid, lost = exchanges.pop(_initiator(exchanges, ledger))
    match list(exchanges.values()):
        case []:
            return paid, lost, received, gained
        case [pool]:
            return pool
        case _:
            return None


def _initiator(exchanges: dict[str, Exchange], ledger: Ledger) -> str:
    """Return who trades: a signer, or else (a router trades for its user) whoever pays first."""
    for signer in ledger.signers:
        if signer in exchanges:
            return signer
    return next(iter(exchanges), "")


def _trader(exchange: Exchange, moved: list[Move], ledger: Ledger) -> str:
    """Return the signer on the other side of *exchange*, else the fee payer."""
    signers = ledger.signers
    if len(signers) > 1:
        received, _, paid, _ = exchange
        for source, target, mint, _, _ in moved:
            if mint == received and source in signers:
                return source
            if mint == paid and target in signers:
                return target
    return signers[0] if signers else ledger.key(0)


def _changes_supply(call: Call) -> bool:
    return any(base58.decode(token.data)[:1] in SUPPLY for token in call.tokens)


def _swap(  # noqa: PLR0913 - what it takes to say where and what
    call: Call, leg: int, pool: int | None, exchange: Exchange, moved: list[Move], ledger: Ledger
) -> Swap:
    received, gained, paid, lost = exchange
    accounts = call.instruction.accounts
    if pool is not None and pool >= len(accounts):
        raise Unreadable(Reason.TRUNCATED_INSTRUCTION)
    return Swap(
        ledger.signature,
        ledger.index,
        call.outer,
        call.inner,
        leg,
        call.program.name,
        None if pool is None else ledger.key(accounts[pool]),
        address(received),
        gained,
        ledger.decimals_of(received),
        address(paid),
        lost,
        ledger.decimals_of(paid),
        _trader(exchange, moved, ledger),
    )
