"""Curves that hold SOL as lamports, and pay for a sale without a transfer.

A buyer pays by a transfer of lamports.  A program takes lamports out of its own account without a
transfer, so only the balances of the transaction show the payment of a sale: the balance before,
plus the lamports that transfers added, minus the balance after.  This amount is the payment of the
sale if no other call could take lamports from the account.

LaunchLab: the event has the reserve of the curve, a part of which is in the vault.  The other part,
the virtual reserve, can be any amount that the creator of the token chose, so only a part of it
counts: at most an amount near the virtual reserve of the curves of pump.fun.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from mintscope.dex import base58, events, transfers
from mintscope.dex.base58 import data_of
from mintscope.dex.events import U64
from mintscope.dex.moves import PARTIES, moves
from mintscope.dex.outcome import QuarantineReason, Swap, Unreadable
from mintscope.dex.program import EVENT_ACCOUNTS_MAX, Call, Leg
from mintscope.dex.token_accounts import TokenAccounts
from mintscope.dex.transfers import exchange_of, flow_of, read_closed, swap_of
from mintscope.kit.primitives import Mint
from mintscope.solana.blocks import DOLLARS, WSOL
from mintscope.solana.transaction import Instruction

# buy, buy_exact_out, buy_with_be_authority: these instructions take lamports only by transfer.
BUYS: Final = frozenset(
    map(bytes.fromhex, ("66063d1201daebea", "18d3742869039938", "4f4dabed9d31ebc6"))
)
# The system program: CreateAccount, Transfer, CreateAccountWithSeed, TransferWithSeed.
CREATE: Final = b"\x00\x00\x00\x00"
TRANSFER: Final = b"\x02\x00\x00\x00"
CREATE_SEEDED: Final = b"\x03\x00\x00\x00"
TRANSFER_SEEDED: Final = b"\x0b\x00\x00\x00"
LAMPORTS_AT: Final = 4
# CloseAccount, WithdrawExcessLamports, UnwrapLamports: they pay lamports to their second account.
RETURNING: Final = frozenset({b"\x09", b"\x26", b"\x2d"})


def read(call: Call, legs: tuple[Leg, ...], token_accounts: TokenAccounts) -> list[Swap]:
    """Return the swap that *call* made with a launch curve; empty if nothing was traded.

    legs     the position of the curve among the accounts; if empty, the transfers alone are read
    Raises   Unreadable, for example with SHARED_LAMPORTS if another instruction may have taken
             lamports from the curve, or a token program has paid lamports to it; with NO_MOVEMENT
             if the curve did not exchange two mints; with TRUNCATED_INSTRUCTION if accounts are
             missing
    """
    if not legs:
        return read_closed(call, legs, token_accounts)
    leg = legs[0]
    accounts = call.instruction.accounts
    if leg.pool is None or len(accounts) < leg.size:
        raise Unreadable(QuarantineReason.TRUNCATED_INSTRUCTION)
    account = accounts[leg.pool]
    curve = token_accounts.key(account)
    token_accounts.complete()
    moved = moves(call, token_accounts)
    flow = flow_of(moved, (curve,))
    exchange = exchange_of(flow)
    if exchange is None:
        tokens = {mint: gain for mint, gain in flow.items() if gain and mint != WSOL}
        if not tokens and not any(flow.values()):
            return []  # nothing was traded
        if len(tokens) != 1 or min(tokens.values()) < 0:
            raise Unreadable(QuarantineReason.NO_MOVEMENT)
        paid = _paid(call, account, token_accounts)
        ((mint, gained),) = tokens.items()
        exchange = mint, gained, WSOL, paid
    swap = swap_of(call, exchange, moved, token_accounts, leg=0, pool=curve, owners=(curve,))
    held = token_accounts.lamports(account)
    left = None if held is None else held[1]
    if swap.in_mint == WSOL:
        return [swap._replace(in_left=left)]
    return [swap._replace(out_left=left)] if swap.out_mint == WSOL else [swap]


def _paid(call: Call, account: int, token_accounts: TokenAccounts) -> int:
    """Return the lamports that the curve's program took out of *account* without a transfer.

    Raises Unreadable if the program took none, if the lamports of *account* were not recorded, or
    if another instruction may have changed them without a transfer.
    """
    others = [
        one
        for one in token_accounts.instructions(call.instruction.program_id_index)
        if one is not call.instruction and _may_take(one, account)
    ]
    returned = any(_returns(one, account) for one in token_accounts.token_instructions())
    if others or returned:
        raise Unreadable(QuarantineReason.SHARED_LAMPORTS)
    held = token_accounts.lamports(account)
    if held is None:
        raise Unreadable(QuarantineReason.NO_MOVEMENT)
    before, after = held
    sent = sent_to_each(token_accounts.system_instructions())[account]
    paid = before + sent - after
    if paid <= 0:
        raise Unreadable(QuarantineReason.NO_MOVEMENT)
    return paid


def _may_take(instruction: Instruction, account: int) -> bool:
    """Return whether *instruction* of the curve's program may take lamports out of *account*."""
    accounts = instruction.accounts
    # A call with so few accounts publishes an event, and takes nothing.
    if len(accounts) <= EVENT_ACCOUNTS_MAX or account not in accounts:
        return False
    return base58.head(instruction.data) not in BUYS


def _returns(instruction: Instruction, account: int) -> bool:
    """Return whether *instruction* closes or unwraps a token account in favour of *account*."""
    taker = instruction.accounts[1:PARTIES]
    if len(taker) != 1 or taker[0] != account:
        return False
    return data_of(instruction)[:1] in RETURNING


def sent_to_each(instructions: Iterable[Instruction]) -> Counter[int]:
    """Return the lamports that *instructions* of the system program add to each account, by index.

    Only transfers and creations of accounts count.  The number is negative if the account paid more
    than it received.  Raises Unreadable if an instruction is cut short.
    """
    sent: Counter[int] = Counter()
    for instruction in instructions:
        moved = _sent(instruction)
        if moved is not None:
            source, target, amount = moved
            sent[source] -= amount
            sent[target] += amount
    return sent


def _sent(instruction: Instruction) -> tuple[int, int, int] | None:
    """Return the source, the target and the lamports; None if *instruction* moves none."""
    data = data_of(instruction)
    accounts = instruction.accounts
    kind = data[:LAMPORTS_AT]
    if kind in (CREATE, TRANSFER):
        at = LAMPORTS_AT
        target = 1
    elif kind == CREATE_SEEDED:  # base, length of seed (u64), seed, lamports
        size = int.from_bytes(data[36:44], "little")
        at = 44 + size
        target = 1
    elif kind == TRANSFER_SEEDED:  # account 1 is the base
        at = LAMPORTS_AT
        target = 2
    else:
        return None
    if len(data) < at + 8 or len(accounts) <= target:
        raise Unreadable(QuarantineReason.TRUNCATED_INSTRUCTION)
    (amount,) = U64(data, at)
    return accounts[0], accounts[target], amount


VIRTUAL_QUOTE: Final = 48
REAL_QUOTE_AFTER: Final = 80
RESERVE_MAX: Final = 10**18  # raw units; more than the supply of any quote token
VIRTUAL_SOL_MAX: Final = 40 * 10**9  # lamports; curves of pump.fun have 30 SOL
VIRTUAL_DOLLARS_MAX: Final = 6_000 * 10**6
# buy_exact_in, buy_exact_out
LAUNCHLAB_BUYS: Final = frozenset(map(bytes.fromhex, ("faea0d7bd59c13ec", "18d3742869039938")))


def launchlab_read(call: Call, legs: tuple[Leg, ...], token_accounts: TokenAccounts) -> list[Swap]:
    """Return the swap in the transfers of *call* with a LaunchLab curve, with the curve's reserve.

    The reserve is the real reserve plus the counted part of the virtual reserve; if no event shows
    it, it is the balance of the vault.  The result is empty if nothing was traded.

    Raises Unreadable if the transfers are not a swap, or if the event is too short or disagrees
    with them, for example.
    """
    swaps = transfers.read(call, legs, token_accounts)
    if len(swaps) != 1:
        return swaps
    (swap,) = swaps
    is_buy = base58.head(call.instruction.data) in LAUNCHLAB_BUYS
    reserve = _reserve(call, swap.in_mint if is_buy else swap.out_mint)
    if reserve is None:
        return swaps
    return [swap._replace(in_left=reserve) if is_buy else swap._replace(out_left=reserve)]


def _reserve(call: Call, quote: Mint) -> int | None:
    """Return the reserve of the curve after the trade, in raw units of *quote*; None if unknown.

    Raises Unreadable if the event is too short.
    """
    # Only the first swap event of *call* is read.
    for data, _ in events.published(call):
        # A creator could choose a huge virtual reserve, so that the pool seems deep.
        virtual = min(events.u64(data, VIRTUAL_QUOTE), _virtual_max(quote))
        reserve = virtual + events.u64(data, REAL_QUOTE_AFTER)
        return reserve if 0 < reserve < RESERVE_MAX else None
    return None


def _virtual_max(quote: Mint) -> int:
    """Return the largest virtual reserve that counts, in raw units of *quote*."""
    if quote == WSOL:
        return VIRTUAL_SOL_MAX
    return VIRTUAL_DOLLARS_MAX if quote in DOLLARS else 0
