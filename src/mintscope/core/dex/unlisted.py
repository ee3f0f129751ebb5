"""Instructions that the table does not list, of programs that it does.

A program that publishes its swaps is read by its event, whatever the instruction is called.
Of the others, one that gave one mint for another is reported, for a person to look at.
"""

from based58 import b58encode

from mintscope.base.primitives import PUBKEY_BYTES
from mintscope.core.dex import base58, events, pumpfun
from mintscope.core.dex.events import FIELDS_AT, u64
from mintscope.core.dex.outcome import QuarantineReason, Unreadable
from mintscope.core.dex.program import Call
from mintscope.core.dex.token_accounts import TokenAccounts
from mintscope.core.dex.transfers import (
    PARTIES,
    changes_supply,
    exchange_of,
    exchanges_of,
    flow_of,
    moves,
    swap_of,
)
from mintscope.core.market.swap import Swap


def read(call: Call, token_accounts: TokenAccounts) -> list[Swap]:
    """Return the swaps that the events of *call* tell; none where nothing was exchanged.

    Raises Unreadable where an exchange happened that no event tells of.
    """
    if call.events:
        swaps = pumpfun.read_event(call, token_accounts) or read_events(call, token_accounts)
        if swaps:
            return swaps
    if _exchanged(call, token_accounts):
        head = base58.head(call.instruction.data).hex()
        raise Unreadable(QuarantineReason.UNKNOWN_INSTRUCTION, head)
    return []


def read_events(call: Call, token_accounts: TokenAccounts) -> list[Swap]:
    """Return one swap for each event of *call* that tells of one.

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
            gained, lost = u64(data, layout.received[0]), u64(data, layout.paid)
        exchange = received, gained, paid, lost
        swaps.append(swap_of(call, exchange, moved, token_accounts, leg=leg, pool=pool))
    if not call.token_2022:
        events.verify(call, swaps)
    return swaps


def _exchanged(call: Call, token_accounts: TokenAccounts) -> bool:
    """Return whether tokens of one mint were given for another under *call*.

    Lamports are left out: who claims fees pays the rent of accounts with them.
    """
    if len(call.tokens) < PARTIES or changes_supply(call):
        return False
    token_accounts.complete()
    tokens = Call(call.program, call.instruction, call.outer, call.inner, tokens=call.tokens)
    try:
        return bool(exchanges_of(moves(tokens, token_accounts)))
    except Unreadable:  # then it is not known to have been an exchange
        return False
