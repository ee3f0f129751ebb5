"""Swaps from what moved: the pool is the owner that received one mint and paid another.

Amounts are those of the pool's side.  Where the vaults' owner is not known
the trader's side is turned around.
"""

from typing import Final, TypeAlias

from mintscope.core.dex import events
from mintscope.core.dex.base58 import data_of
from mintscope.core.dex.moves import PARTIES, Move, moves
from mintscope.core.dex.outcome import QuarantineReason, Unreadable
from mintscope.core.dex.program import Call, Leg
from mintscope.core.dex.token_accounts import TokenAccounts, address
from mintscope.core.market.swap import Swap

SUPPLY: Final = frozenset({b"\x07", b"\x08", b"\x0e", b"\x0f"})  # MintTo, Burn, and checked
U64_MAX: Final = 2**64 - 1

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
