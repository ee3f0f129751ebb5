"""Recognition of exchanges by programs that are not in the table.

A call is an exchange if a trader gave one mint to an account and received another from an account
of the same owner, and that owner did not sign the transaction, so that the program moved its
tokens.  The caller of the program does not matter, unless it is a router (see below).

Not exchanges
    Deposits and withdrawals   both mints move in one direction, or shares are minted for the trader
                               or burned; shares minted for another owner are a fee (SPL token-swap
                               mints the fee of its owner)
    Routers                    another program exchanges, and the router passes the tokens on
    Lending, perpetuals        another program holds the tokens that are paid out: only transfers
                               that the program itself made count
    Stakes and deposits        recognised by the name of an Anchor instruction; known lenders
                               and farms by their address
    NFTs                       one piece of a mint without decimals
    Orders, airdrops, loans    one mint moves, or no owner both receives and pays
    Trades between two people  both sides signed

The party that receives may differ from the party that pays, if one of the two signed.

Directly below a router that is in the table or in ROUTERS, a call needs less evidence: transfers
by programs that it called count too, and the trader's exchange is sufficient if no owner made the
opposite one.

Other signs of exchanges cannot be read reliably, so they are only reported: see `dex.unread`.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from mintscope.dex import base58, batch, unread
from mintscope.dex.base58 import data_of
from mintscope.dex.moves import MOVING, PARTIES, SHAPES, Move, moves
from mintscope.dex.outcome import (
    EXCHANGES,
    NO_EXCHANGE_PROGRAMS,
    NO_EXCHANGES,
    QuarantineReason,
    RecognisedBy,
    Swap,
    Unlisted,
    Unreadable,
)
from mintscope.dex.program import Call
from mintscope.dex.programs import UNLISTED
from mintscope.dex.token_accounts import TokenAccounts
from mintscope.dex.transfers import (
    Exchange,
    exchange_in,
    exchanges_of,
    flow_of,
    is_of_one_piece,
    makes_shares,
    read_closed,
    swap_of,
)
from mintscope.dex.unread import moved_of

# Routers and trading bots that are not in the table, with names for people.
ROUTERS: Final = {
    "JUP4Fb2cqiRUcaTHdrPC8h2gNsA2ETXiPDD33WcGuJB": "Jupiter v4",
    "JUP3c2Uh3WA4Ng34tw6kPd2G4C5BB21Xo36Je1s32Ph": "Jupiter v3",
    "JUP2jxvXaqu7NQY1GmNF4m1vodw12LVXYxbFL2uJvfo": "Jupiter v2",
    "Sett1erwx2eqT5A8uvu8GBxDFT2W5TNnhirL7hLmb8m": "0x Settler",
    "REALp6iMBDTctQqpmhBo4PumwJGcybbnDpxtax3ara3": "Byreal router",
    "GMGNreQcJFufBiCTLDBgKhYEfEe9B454UjpDr5CaSLA1": "GMGN 2",
    "AveaiuA1emN71q9mS2QQ9BEWNAAHmp8sHSvwLFHQjufM": "Ave",
    "b1oomGGqPKGD6errbyfbVMBuzSC8WtAAYo8MwNafWW1": "Bloom",
    "BANANAjs7FJiPQqJTGFzkZJndT9o7UmKiYYGaJz6frGu": "BananaGun",
    "MaestroAAe9ge5HTc64VbBQZ6fP77pwvrhM8i1XWSAx": "Maestro",
    "minTcHYRLVPubRK8nt6sqe2ZpWrGDLQoNLipDJCGocY": "Mintech",
    "Prism8hsRo6Ww5jiN5Zeh3YDPLZHqHduCPSAV7JF7qv": "Prism",
}


def named(program: str) -> str:
    """Return *program*, an address, for display: with the router's name if it is in ROUTERS."""
    name = ROUTERS.get(program)
    return program if name is None else f"{name} ({program})"


REPORTED: Final = frozenset({QuarantineReason.UNKNOWN_EXCHANGE, QuarantineReason.MALFORMED_BATCH})
"""The reasons to quarantine a call of an unlisted program; any other reason means no exchange."""


def recognise(
    calls: Sequence[Call], found: list[list[Swap] | None], token_accounts: TokenAccounts
) -> Iterator[tuple[Call, Unreadable]]:
    """Find swaps of programs that are not in the list of DEX programs; store them in *found*.

    calls   all calls of a transaction, in order; the innermost ones are examined first
    found   the swaps of each of *calls*, None if a call could not be read; the swaps of listed
            programs must already be stored

    Yields each call that could not be read for one of the reasons in REPORTED, with its error.
    """
    has_moved = False  # whether one of the calls examined so far has moved tokens
    # Innermost first: a call around an exchange is usually a router, which passed tokens on.
    for number in reversed(range(len(calls))):
        call = calls[number]
        if call.program is not UNLISTED or not (call.tokens or has_moved):
            continue
        inside = range(number + 1, _end(calls, number))
        has_exchanged = any(found[n] is None or found[n] for n in inside)
        if has_exchanged and not call.tokens:
            continue  # only the calls inside it exchanged
        try:
            if has_exchanged:
                _expect_none_beside(call, token_accounts)
            else:
                inner: list[Call] = []
                if inside and (has_moved or call.tokens):
                    inner += _moving([calls[n] for n in inside], call, token_accounts)
                if not call.tokens and not inner:
                    continue
                has_moved = True
                if not call.below_router and _is_below_named(calls, number, token_accounts):
                    call.below_router = True
                found[number] = _recognised(call, inner, token_accounts)
        except Unreadable as unreadable:
            if unreadable.reason in REPORTED:
                found[number] = None  # counts as an exchange for the calls around it
                yield call, unreadable
            # For any other reason, *call* is no exchange.


def _expect_none_beside(call: Call, token_accounts: TokenAccounts) -> None:
    """Raise Unreadable if *call* itself exchanged, in addition to its inner calls."""
    call.tokens = batch.expand(call.tokens, token_accounts.opened)
    if _may_exchange(call) and not _is_no_exchange(call, token_accounts):
        unread.expect_none_beside(call, token_accounts)


def _recognised(call: Call, inner: Sequence[Call], token_accounts: TokenAccounts) -> list[Swap]:
    """Return the swaps of *call*, a call of an unlisted program.

    Its *inner* calls moved tokens or lamports; none of them is a swap itself.  Raises Unreadable;
    the reason is UNKNOWN_EXCHANGE if a signer gave one token for another, and no vaults took the
    opposite sides.
    """
    if call.below_router:
        _take_in(call, inner)
        inner = ()
    call.tokens = batch.expand(call.tokens, token_accounts.opened)
    if _is_no_exchange(call, token_accounts):
        return []
    if _may_exchange(call):
        swaps = read_closed(call, (), token_accounts) if call.below_router else []
        address = token_accounts.key(call.instruction.program_id_index)
        found = [
            swap._replace(program=address, recognised_by=RecognisedBy.TRANSFERS)
            for swap in swaps or _read(call, token_accounts)
            if not is_of_one_piece(exchange_in(swap), token_accounts)
        ]
        if found:
            return found
    whole = unread.with_inner(call, inner, token_accounts)
    if unread.may_exchange(whole, call, token_accounts):
        unread.expect_none(whole, call, token_accounts)
    return []


def _is_below_named(calls: Sequence[Call], number: int, token_accounts: TokenAccounts) -> bool:
    """Return whether the direct caller of call *number* is a router in ROUTERS."""
    call = calls[number]
    if call.inner < 0:
        return False
    height = _height(call)
    for caller in reversed(calls[:number]):
        if caller.outer != call.outer:
            return False
        above = _height(caller)
        if above < height:
            address = token_accounts.key(caller.instruction.program_id_index)
            return above == height - 1 and address in ROUTERS
    return False


def _is_no_exchange(call: Call, token_accounts: TokenAccounts) -> bool:
    """Return whether the program or the instruction name of *call* shows that it is no exchange."""
    address = token_accounts.key(call.instruction.program_id_index)
    if address in NO_EXCHANGE_PROGRAMS:
        return True
    return base58.head(call.instruction.data) in NO_EXCHANGES


def _moving(inner: Iterable[Call], call: Call, token_accounts: TokenAccounts) -> Iterator[Call]:
    """Yield the *inner* calls of unlisted programs that may move tokens or lamports for *call*."""
    # Calls of programs that do not exchange are omitted.  Calls whose instruction is one of
    # NO_EXCHANGES are omitted too, unless the instruction of *call* is one of EXCHANGES: the vault
    # program of a market may have an instruction named "deposit".
    for one in inner:
        if one.program is not UNLISTED or not (one.tokens or one.lamports):
            continue
        address = token_accounts.key(one.instruction.program_id_index)
        if address in NO_EXCHANGE_PROGRAMS:
            continue
        is_named = base58.head(one.instruction.data) in NO_EXCHANGES
        if not is_named or base58.head(call.instruction.data) in EXCHANGES:
            yield one


def _may_exchange(call: Call) -> bool:
    """Return whether *call* made enough moves for an exchange; its batches must be expanded."""
    moved = len(call.lamports) if call.below_router else 0
    for token in call.tokens:
        head = data_of(token)[:PARTIES]
        if head in SHAPES or head[:1] in MOVING:
            moved += 1
    return moved >= PARTIES


def _take_in(call: Call, inner: Sequence[Call]) -> None:
    for one in inner:
        call.tokens = [*call.tokens, *one.tokens]
        call.lamports = [*call.lamports, *one.lamports]
        call.token_2022 = call.token_2022 or one.token_2022


def described(
    call: Call, swaps: Sequence[Swap], token_accounts: TokenAccounts
) -> Iterator[Unlisted]:
    """Yield a record of each of *swaps*, which were made by a call of an unlisted program."""
    address = token_accounts.key(call.instruction.program_id_index)
    head = base58.head(call.instruction.data).hex()
    for swap in swaps:
        yield Unlisted(swap.signature, address, head, moved_of([exchange_in(swap)]))


def _height(call: Call) -> int:
    """Return the depth of *call*, 1 at the top; 0 if unknown."""
    return 1 if call.inner < 0 else call.instruction.stack_height or 0


def _end(calls: Sequence[Call], number: int) -> int:
    """Return the index after the last call that ran inside call *number*."""
    call = calls[number]
    height = _height(call)
    for n in range(number + 1, len(calls)):
        other = calls[n]
        if other.outer != call.outer:
            return n
        deeper = other.instruction.stack_height
        if deeper is not None and deeper <= height:
            return n
    return len(calls)


def _read(call: Call, token_accounts: TokenAccounts) -> list[Swap]:
    """Return the swap of *call* if its vaults show one, else an empty list.

    Raises Unreadable, with UNKNOWN_EXCHANGE if a signer exchanged and no vaults show the exchange.
    """
    token_accounts.complete()
    # Moves of lamports are left out, because lamports also pay rent and priority fees.
    moved = moves(replace(call, lamports=[]), token_accounts)
    exchanges = exchanges_of(moved)
    if not exchanges:
        return []
    sides = _sides(exchanges, moved, token_accounts)
    sides = sides or _paid_to_another(exchanges, moved, token_accounts)
    if sides is None:
        signers = token_accounts.signers
        traded = [exchanges[signer] for signer in signers if signer in exchanges]
        # If no signer exchanged, a pair of parties is required: a single party may buy for
        # someone else.
        pairs = () if traded else _mirrored(exchanges, token_accounts)
        traded += [exchanges[trader] for trader, _ in pairs]
        unread.report(call, traded, token_accounts)
        return []
    trader, owner = sides
    exchange = exchanges[owner]
    if makes_shares(call, exchange, token_accounts, trader):
        return []
    return [swap_of(call, exchange, moved, token_accounts, leg=0, pool=None, owners=(owner,))]


def _sides(
    exchanges: dict[str, Exchange], moved: Sequence[Move], token_accounts: TokenAccounts
) -> tuple[str, str] | None:
    """Return the trader and the owner of the pool's vaults.

    Return None if they are not certain.
    """
    signers = token_accounts.signers
    pairs = _mirrored(exchanges, token_accounts)
    signed = [pair for pair in pairs if pair[0] in signers]
    if len(signed) == 1:
        return signed[0]
    if signed or not pairs:
        return None
    # No signer traded; the account of a router did.  It pays first, and the vaults pay after it.
    first = next(source for source, *_ in moved if source in exchanges)
    mirrored = [pair for pair in pairs if pair[0] == first]
    return mirrored[0] if len(mirrored) == 1 else None


def _mirrored(
    exchanges: dict[str, Exchange], token_accounts: TokenAccounts
) -> Sequence[tuple[str, str]]:
    """Return each pair (trader, owner of the vaults) that made opposite exchanges.

    The owner of the vaults did not sign the transaction.
    """
    signers = token_accounts.signers
    return [
        (trader, owner)
        for trader, (taken, _, given, _) in exchanges.items()
        for owner, (received, _, paid, _) in exchanges.items()
        if owner not in signers and taken == paid and given == received
    ]


def _paid_to_another(
    exchanges: dict[str, Exchange], moved: list[Move], token_accounts: TokenAccounts
) -> tuple[str, str] | None:
    """Return the trader and the owner of the vaults, if one party paid and another received.

    Return None if this is not certain.
    """
    # The trader is the one of the two parties that signed; neither may have moved anything else.
    # None unless exactly one owner exchanged, it did not sign, and it exchanged each mint with one
    # party.
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
