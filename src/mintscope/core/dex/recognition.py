"""Exchanges of programs that the table does not list, recognised by their vaults.

A call is an exchange if a trader gave one mint to an account and got another from an account of
the same owner, and that owner did not sign the transaction: its tokens moved by the program's own
authority.  What called the program does not matter, and no list of programs is asked.

Not exchanges
    Deposits and withdrawals   both mints go one way, or tokens of a share are made for the trader
                               or destroyed; shares made for another owner are a fee (SPL
                               token-swap mints its owner's fee)
    Routers                    what they call has exchanged: their own transfers pass it on
    Lending, perpetuals        what is paid out comes from another program that keeps it: only
                               transfers that the program itself made count
    Stakes and deposits        by the name of the instruction, if the program is made with Anchor;
                               lenders and farms that are known, by their address
    NFTs                       one piece of a mint without decimals
    Orders, airdrops, loans    one mint moves, or no owner both gains and pays
    Trades between two people  both sides signed

An exchange may pay out to another party than the one that paid, if one of the two signed.

Directly below a router of the table a call is believed with less: what moved in programs that it
called counts, too, and the trader's side alone decides if no owner stands on the other.
"""

from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Final

from mintscope.core.dex import base58, batch
from mintscope.core.dex.base58 import data_of
from mintscope.core.dex.moves import PARTIES, SHAPES, UNWRAPPING, Move, moves
from mintscope.core.dex.outcome import QuarantineReason, Unlisted, Unreadable
from mintscope.core.dex.program import Call
from mintscope.core.dex.programs import UNLISTED
from mintscope.core.dex.readers.unlisted import moved_of
from mintscope.core.dex.token_accounts import TokenAccounts
from mintscope.core.dex.transfers import (
    Exchange,
    exchanges_of,
    flow_of,
    makes_shares,
    read_closed,
    swap_of,
)
from mintscope.core.market.swap import RecognisedBy, Swap

WORDS: Final = (
    "deposit withdraw stake unstake claim claim_fees claim_rewards harvest collect_fees "
    "collect_reward add_liquidity remove_liquidity add_liquidity_by_strategy "
    "remove_liquidity_by_range increase_liquidity increase_liquidity_v2 decrease_liquidity "
    "decrease_liquidity_v2 open_position open_position_v2 close_position initialize "
    "initialize_pool create_pool migrate migrate_pool borrow repay liquidate "
    "liquidate_obligation redeem redeem_fees lend supply deposit_collateral "
    "withdraw_collateral deposit_reserve_liquidity borrow_obligation_liquidity "
    "repay_obligation_liquidity add_collateral remove_collateral lock unlock vest "
    "cancel_order place_order mint burn airdrop distribute "
    "cancel_all_and_place_orders edit_order modify_order replace_order deposit_and_stake "
    "deposit_and_borrow repay_and_withdraw deposit_stake withdraw_stake operate open_position_v3 "
    "increase_position decrease_position liquidate_position lending_account_liquidate "
    "liquidate_obligation_and_redeem_reserve_collateral "
    "liquidate_obligation_and_redeem_reserve_collateral_v2 "
    "deposit_reserve_liquidity_and_obligation_collateral "
    "repay_and_withdraw_and_redeem flash_borrow_reserve_liquidity flash_repay_reserve_liquidity "
    "liquidate_perp liquidate_spot liquidate_borrow_for_perp_pnl buy_now fulfill_order "
)
NO_EXCHANGES: Final = frozenset(
    sha256(f"global:{word}".encode()).digest()[:8] for word in WORDS.split()
)
"""First bytes of Anchor instructions that exchange nothing, though they may look so by what moved:
a stake that pays out its reward takes one mint and gives another."""
NO_EXCHANGE_PROGRAMS: Final = frozenset(
    {
        "KLend2g3cP87fffoy8q1mQqGKjrxjC8boSyAYavgmjD",  # Kamino Lend
        "So1endDq2YkqhipRh3WViPa8hdiSpxWy6z3Z6tMCpAo",  # Save, once Solend
        "MFv2hWf31Z9kbCa1snEPYctwafyhdvnV7FZnsebVacA",  # marginfi
        "jupr81YtYssSyPt8jbnGuiWon5f6x9TcDEFxYe3Bdzi",  # Jupiter Lend, its vaults
        "FarmsPZpWu9i7Kky8tPN37rs2TpmMrAZrC7S7vJa91Hr",  # Kamino farms
        "EhhTKczWMGQt46ynNeRX1WfeagwwJd7ufHvCDjRxjo5Q",  # Raydium farms 3
        "9KEPoZmtHUrBbhWN1v1KWLMkkvwY6WLtAVUCPRtRjP4z",  # Raydium farms 5
        "FarmqiPv5eAj3j1GMdMCMUGXqPUvmquZtMy86QH6rzhG",  # Raydium farms 6
    }
)
"""Programs that lend or keep farms: a liquidation, a loan with its collateral and a deposit that
pays its reward take one mint and give another out of one owner's accounts, as an exchange does."""
MOVING: Final = UNWRAPPING | SHAPES.keys()
"""First bytes of instructions after which tokens, or wrapped SOL, are another's."""
REPORTED: Final = frozenset({QuarantineReason.UNKNOWN_EXCHANGE, QuarantineReason.MALFORMED_BATCH})
"""Why a call of any program is quarantined; for another reason it is no exchange that we know."""


def recognise(
    calls: Sequence[Call], found: list[list[Swap] | None], token_accounts: TokenAccounts
) -> Iterator[tuple[Call, Unreadable]]:
    """Enter into *found* the swaps of the unlisted programs among *calls*, innermost first.

    found   the swaps of each call, None if it could not be read; those of listed programs are there
            already
    Yields calls in which a signer exchanged tokens in a way that is not understood.
    """
    for number in reversed(range(len(calls))):
        call = calls[number]
        if call.program is not UNLISTED or not (call.tokens or call.below_router):
            continue
        inside = range(number + 1, _end(calls, number))
        if any(found[n] is None or found[n] for n in inside):
            continue  # it passed on what they exchanged, read or not
        if call.below_router:
            _take_in(call, [calls[n] for n in inside], token_accounts)
        try:
            call.tokens = batch.expand(call.tokens, token_accounts.opened)
            if not _may_exchange(call):
                continue
            address = token_accounts.key(call.instruction.program_id_index)
            if address in NO_EXCHANGE_PROGRAMS:
                continue
            if base58.head(call.instruction.data) in NO_EXCHANGES:
                continue
            swaps = read_closed(call, (), token_accounts) if call.below_router else []
            found[number] = [
                swap._replace(program=address, recognised_by=RecognisedBy.TRANSFERS)
                for swap in swaps or _read(call, token_accounts)
                if not _is_of_one_piece(_exchanged(swap), token_accounts)
            ]
        except Unreadable as unreadable:
            if unreadable.reason in REPORTED:
                found[number] = None
                yield call, unreadable
            # Else what moved is no exchange that we know of: a program of any kind.


def _may_exchange(call: Call) -> bool:
    """Return whether enough moved under *call*, whose batches are expanded, for an exchange."""
    moved = len(call.lamports) if call.below_router else 0
    for token in call.tokens:
        head = data_of(token)[:PARTIES]
        if head in SHAPES or head[:1] in MOVING:
            moved += 1
    return moved >= PARTIES


def _is_of_one_piece(exchange: Exchange, token_accounts: TokenAccounts) -> bool:
    """Return whether one side of *exchange* is one piece without decimals: an NFT was traded."""
    sides = exchange[:PARTIES], exchange[PARTIES:]
    return any(amount == 1 and token_accounts.decimals(mint) == 0 for mint, amount in sides)


def _take_in(call: Call, inner: Sequence[Call], token_accounts: TokenAccounts) -> None:
    """Count what moved under *inner* calls, which did not exchange, as moved under *call*."""
    for one in inner:
        address = token_accounts.key(one.instruction.program_id_index)
        if one.program is not UNLISTED or address in NO_EXCHANGE_PROGRAMS:
            continue
        call.tokens = [*call.tokens, *one.tokens]
        call.lamports = [*call.lamports, *one.lamports]
        call.token_2022 = call.token_2022 or one.token_2022


def described(
    call: Call, swaps: Sequence[Swap], token_accounts: TokenAccounts
) -> Iterator[Unlisted]:
    """Yield *swaps* of *call*, whose program the table does not list, with what names it."""
    address = token_accounts.key(call.instruction.program_id_index)
    head = base58.head(call.instruction.data).hex()
    for swap in swaps:
        yield Unlisted(swap.signature, address, head, moved_of([_exchanged(swap)]))


def _exchanged(swap: Swap) -> Exchange:
    return swap.in_mint, swap.in_amount, swap.out_mint, swap.out_amount


def _end(calls: Sequence[Call], number: int) -> int:
    """Return the number behind the last call that ran inside call *number*."""
    call = calls[number]
    height = 1 if call.inner < 0 else call.instruction.stack_height or 0
    for n in range(number + 1, len(calls)):
        other = calls[n]
        if other.outer != call.outer:
            return n
        deeper = other.instruction.stack_height
        if deeper is not None and deeper <= height:
            return n
    return len(calls)


def _read(call: Call, token_accounts: TokenAccounts) -> list[Swap]:
    """Return the swap of *call* if its vaults show one.

    Raises Unreadable, with UNKNOWN_EXCHANGE if a signer exchanged and no vaults show it.
    """
    token_accounts.complete()
    # Without lamports: those pay for rent and for priority, too.
    tokens = Call(call.program, call.instruction, call.outer, call.inner, call.tokens)
    tokens.token_2022 = call.token_2022
    moved = moves(tokens, token_accounts)
    exchanges = exchanges_of(moved)
    if not exchanges:
        return []
    sides = _sides(exchanges, moved, token_accounts)
    sides = sides or _paid_to_another(exchanges, moved, token_accounts)
    if sides is None:
        traded = [
            exchanges[signer]
            for signer in token_accounts.signers
            if signer in exchanges and not _is_of_one_piece(exchanges[signer], token_accounts)
        ]
        if traded and not makes_shares(call, traded[0], token_accounts, None):
            head = base58.head(call.instruction.data).hex()
            raise Unreadable(QuarantineReason.UNKNOWN_EXCHANGE, head, moved_of(traded))
        return []
    trader, owner = sides
    exchange = exchanges[owner]
    if makes_shares(call, exchange, token_accounts, trader):
        return []
    return [swap_of(call, exchange, moved, token_accounts, leg=0, pool=None, owners=(owner,))]


def _sides(
    exchanges: dict[str, Exchange], moved: Sequence[Move], token_accounts: TokenAccounts
) -> tuple[str, str] | None:
    """Return who traded and who owns the vaults; None unless it is one of each."""
    signers = token_accounts.signers
    pairs = [
        (trader, owner)
        for trader, (taken, _, given, _) in exchanges.items()
        for owner, (received, _, paid, _) in exchanges.items()
        if owner not in signers and taken == paid and given == received
    ]
    signed = [pair for pair in pairs if pair[0] in signers]
    if len(signed) == 1:
        return signed[0]
    if signed or not pairs:
        return None
    # A router's own account trades: it pays first, and the vaults answer.
    first = next(source for source, *_ in moved if source in exchanges)
    mirrored = [pair for pair in pairs if pair[0] == first]
    return mirrored[0] if len(mirrored) == 1 else None


def _paid_to_another(
    exchanges: dict[str, Exchange], moved: list[Move], token_accounts: TokenAccounts
) -> tuple[str, str] | None:
    """Return the trader and the owner of the vaults if one party paid and another received.

    One of the two signed, and neither has another part in the call.  None unless one owner, who
    did not sign, exchanged, each mint with one other party.
    """
    signers = token_accounts.signers
    if len(exchanges) != 1:
        return None
    ((owner, (received, _, paid, _)),) = exchanges.items()
    givers = {source for source, target, mint, *_ in moved if mint == received and target == owner}
    takers = {target for source, target, mint, *_ in moved if mint == paid and source == owner}
    if owner in signers or len(givers) != 1 or len(takers) != 1:
        return None
    (giver,) = givers
    (taker,) = takers
    if flow_of(moved, (giver,)).keys() != {received} or flow_of(moved, (taker,)).keys() != {paid}:
        return None
    return next(((party, owner) for party in (giver, taker) if party in signers), None)
