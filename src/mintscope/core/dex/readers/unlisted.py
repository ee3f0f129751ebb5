"""Instructions that the table does not list, of programs that it does.

A program that publishes its swaps is read by its event, whatever the instruction is called.
Of the others, one that gave one mint for another is reported, for a person to look at.
"""

from collections.abc import Iterable, Mapping, Sequence

from based58 import b58encode

from mintscope.base.primitives import PUBKEY_BYTES
from mintscope.base.solana import DOLLARS, WSOL
from mintscope.core.dex import base58, events
from mintscope.core.dex.events import FIELDS_AT, u64
from mintscope.core.dex.moves import PARTIES, moves
from mintscope.core.dex.outcome import Moved, QuarantineReason, Unreadable
from mintscope.core.dex.program import Call
from mintscope.core.dex.readers import pumpfun
from mintscope.core.dex.token_accounts import TokenAccounts
from mintscope.core.dex.transfers import (
    Exchange,
    changes_supply,
    exchange_of,
    exchanges_of,
    flow_of,
    is_of_one_piece,
    makes_shares,
    swap_of,
)
from mintscope.core.market.swap import Swap


def read(call: Call, token_accounts: TokenAccounts) -> list[Swap]:
    """Return the swaps in the events of *call*; none where nothing was exchanged.

    Raises Unreadable where an exchange happened that no event has.
    """
    if call.events:
        swaps = pumpfun.read_event(call, token_accounts) or read_events(call, token_accounts)
        if swaps:
            return swaps
    exchanged = _exchanged(call, token_accounts)
    if exchanged:
        head = base58.head(call.instruction.data).hex()
        raise Unreadable(QuarantineReason.UNKNOWN_INSTRUCTION, head, moved_of(exchanged))
    return []


def expect_no_exchange(call: Call, token_accounts: TokenAccounts) -> None:
    """Raise Unreadable if a signer gave one mint for another under *call*, which gave no swap."""
    exchanges = _exchanges(call, token_accounts)
    signed = [exchanges[signer] for signer in token_accounts.signers if signer in exchanges]
    traded = [one for one in signed if not is_of_one_piece(one, token_accounts)]
    if traded and not makes_shares(call, traded[0], token_accounts, None):
        head = base58.head(call.instruction.data).hex()
        raise Unreadable(QuarantineReason.UNKNOWN_EXCHANGE, head, moved_of(traded))


def moved_of(exchanges: Iterable[Exchange]) -> Moved | None:
    """Return the most SOL or dollars that one of *exchanges* moved, None where it was neither."""
    sides = (side for one in exchanges for side in (one[:PARTIES], one[PARTIES:]))
    quotes = [Moved(mint, amount) for mint, amount in sides if mint in DOLLARS or mint == WSOL]
    return max(quotes, key=lambda moved: (moved.quote in DOLLARS, moved.amount), default=None)


def moved_by(call: Call, token_accounts: TokenAccounts) -> Moved | None:
    """Return the SOL or dollars that a call exchanged which could not be read, if that is known."""
    try:
        moved = moved_of(exchanges_of(moves(call, token_accounts)).values())
        return moved or moved_of(_exchanged(call, token_accounts))
    except Unreadable:
        return None


def read_events(call: Call, token_accounts: TokenAccounts) -> list[Swap]:
    """Return one swap for each event of *call* of a swap.

    Raises Unreadable where its pool did not give one mint for another, or other amounts of them.
    """
    swaps: list[Swap] = []
    told = list(events.told(call))
    if not told:
        return swaps
    token_accounts.complete()
    moved = moves(call, token_accounts)
    for leg, (data, layout) in enumerate(told):
        at = FIELDS_AT + layout.pool
        pool = b58encode(data[at : at + PUBKEY_BYTES]).decode()
        exchange = exchange_of(flow_of(moved, (call.program.authority or pool,)))
        if exchange is None:
            raise Unreadable(QuarantineReason.NO_MOVEMENT)
        received, gained, paid, lost = exchange
        if layout.decides:
            gained = u64(data, layout.received[0])
            lost = u64(data, layout.paid)
        exchange = received, gained, paid, lost
        swaps.append(swap_of(call, exchange, moved, token_accounts, leg=leg, pool=pool))
    if not call.token_2022:
        events.verify(call, swaps)
    return swaps


def _exchanged(call: Call, token_accounts: TokenAccounts) -> Sequence[Exchange]:
    """Return what each party gave of one mint for another under *call*; none if shares changed."""
    return () if changes_supply(call) else tuple(_exchanges(call, token_accounts).values())


def _exchanges(call: Call, token_accounts: TokenAccounts) -> Mapping[str, Exchange]:
    """Return what each party gave of one mint for another under *call*.

    Lamports are left out: who claims fees pays the rent of accounts with them.
    """
    if len(call.tokens) < PARTIES:
        return {}
    token_accounts.complete()
    tokens = Call(call.program, call.instruction, call.outer, call.inner, tokens=call.tokens)
    try:
        return exchanges_of(moves(tokens, token_accounts))
    except Unreadable:  # then it is not known to have been an exchange
        return {}
