"""Swaps from transfers: the pool is the owner that received one mint and paid another.

Amounts are those of the pool.  If the owner of the vaults is unknown, the amounts are those of the
trader, in the opposite direction.
"""

from collections.abc import Sequence
from typing import Final, TypeAlias

from msgspec.structs import replace

from mintscope.dex import events
from mintscope.dex.base58 import data_of
from mintscope.dex.events import U64
from mintscope.dex.moves import (
    LAMPORTS_MIN,
    PARTIES,
    SHAPES,
    SYSTEM_TRANSFER,
    UNWRAPPING,
    Move,
    has_new_owner,
    moves,
)
from mintscope.dex.outcome import BY_TABLE, QuarantineReason, Swap, Unreadable, new_swap
from mintscope.dex.program import Call, Leg
from mintscope.dex.token_accounts import TokenAccounts, address
from mintscope.solana.blocks import WSOL

MINT_TO: Final = frozenset({b"\x07", b"\x0e"})  # MintTo, MintToChecked
SUPPLY: Final = frozenset({b"\x07", b"\x08", b"\x0e", b"\x0f"})  # MintTo, Burn, and checked forms
U64_MAX: Final = 2**64 - 1
BETWEEN_VAULTS: Final = "+"

Exchange: TypeAlias = tuple[str, int, str, int]
"""Mint and amount received, mint and amount paid."""


Flow: TypeAlias = tuple[int, int, str | None, int]
"""Source and target account by their indices, mint (None if the transfer names none), amount."""


def read(call: Call, legs: tuple[Leg, ...], token_accounts: TokenAccounts) -> list[Swap]:
    """Return one swap for each pool with which *call* traded.

    legs   the pools, as positions among the accounts; if empty, the pools are found by transfers

    A pool of *legs* whose amounts are all 0 has no swap.  Raises Unreadable if any other pool did
    not exchange two mints, or if an event and the transfers differ.
    """
    # With several signers, `_trader` needs the owners of accounts that the transaction closed.
    if not legs or len(token_accounts.signers) > 1:
        token_accounts.complete()
    moved = moves(call, token_accounts)
    if not legs:
        return _each(call, moved, token_accounts)
    swaps = []
    key = token_accounts.key
    for number, leg in enumerate(legs):
        owners = _owners(call, leg, token_accounts)
        flow = flow_of(moved, owners)
        exchange = exchange_of(flow)
        if exchange is not None:
            pool = leg.pool if leg.pool is None else key(call.instruction.accounts[leg.pool])
            swap = swap_of(
                call, exchange, moved, token_accounts, leg=number, pool=pool, owners=owners
            )
            swaps.append(_own_part(swap, call, leg, token_accounts) if leg.shares else swap)
        elif not flow or any(flow.values()):
            raise Unreadable(QuarantineReason.NO_MOVEMENT)
        # Otherwise all amounts are 0, and nothing was traded.
    if call.events and not has_fee(moved):
        events.verify(call, swaps)
    return swaps


def _own_part(swap: Swap, call: Call, leg: Leg, token_accounts: TokenAccounts) -> Swap:
    """Return *swap* with the pool's own reserves in place of those of the shared vaults."""
    # A reserve is the number of the pool's shares of the vault.  A share is worth one raw unit of
    # the vault, and slightly more once the vault has earned interest.
    accounts = call.instruction.accounts
    left: dict[str, int | None] = {}
    for vault, shares in leg.shares:
        if max(vault, shares) < len(accounts):
            mint = token_accounts.mint(accounts[vault])
            if mint is not None:
                own = token_accounts.book.get(accounts[shares])
                _, left[address(mint)] = token_accounts.held(mint, own)
    return swap._replace(in_left=left.get(swap.in_mint), out_left=left.get(swap.out_mint))


def read_closed(call: Call, legs: tuple[Leg, ...], token_accounts: TokenAccounts) -> list[Swap]:
    """Return the swap that the transfers of *call* show; an empty list if they show none.

    Used for programs that publish no events.  Raises Unreadable if the moves cannot be read.

    legs   the first one, if any, names the pool and its vaults among the accounts; others are
           ignored
    """
    # The transfers form a swap if the pool received one mint and paid another, and no shares were
    # minted or burned.
    if len(call.tokens) + len(call.lamports) < PARTIES:
        return []
    exchange: Exchange | None = None
    owners: tuple[str, ...] = ()
    moved = moves(call, token_accounts)
    leg = legs[0] if legs and len(call.instruction.accounts) >= legs[0].size else None
    if leg is not None and (leg.owners or leg.vaults):
        owners = _owners(call, leg, token_accounts)
        signers = token_accounts.signers
        if owners[0] not in signers and owners[-1] not in signers:  # signers own no vaults
            exchange = exchange_of(flow_of(moved, owners))
    trader = None
    if exchange is None:
        # Only after `complete` do moves name the owners of accounts that the transaction closed.
        token_accounts.complete()
        moved = moves(call, token_accounts)
        owners = ()
        trader, exchange = _opposite(call, moved, token_accounts)
    if exchange is None and has_new_owner(token_accounts):
        raise Unreadable(QuarantineReason.NO_MOVEMENT)  # see `swap_of`
    if exchange is None or makes_shares(call, exchange, token_accounts, trader):
        return []
    pool = None
    if leg is not None and leg.pool is not None:
        account = call.instruction.accounts[leg.pool]
        named = token_accounts.key(account)
        # If the account is a signer or a mint, it is no pool: the instruction has another layout.
        if account >= len(token_accounts.signers) and named not in exchange:
            pool = named
    return [swap_of(call, exchange, moved, token_accounts, leg=0, pool=pool, owners=owners)]


def _owners(call: Call, leg: Leg, token_accounts: TokenAccounts) -> tuple[str, ...]:
    """Return the owners of the vaults between which the swap *leg* moves tokens.

    Raises Unreadable if the instruction has too few accounts.
    """
    accounts = call.instruction.accounts
    if len(accounts) < leg.size:
        raise Unreadable(QuarantineReason.TRUNCATED_INSTRUCTION)
    if call.program.authority is not None:
        return (call.program.authority,)
    if leg.vaults:
        return tuple([token_accounts.owner(accounts[vault]) for vault in leg.vaults])
    owners = leg.owners
    if len(owners) == 1:  # most pools own their vaults
        return (token_accounts.key(accounts[owners[0]]),)
    return tuple([token_accounts.key(accounts[owner]) for owner in owners])


def flow_of(moved: list[Move], owners: tuple[str, ...]) -> dict[str, int]:
    """Return the raw units of each mint that *owners* gained; negative if they lost some."""
    flow: dict[str, int] = {}
    for source, target, mint, sent, received in moved:
        if source in owners:
            flow[mint] = flow.get(mint, 0) - sent
        if target in owners:
            flow[mint] = flow.get(mint, 0) + received
    return flow


def has_fee(moved: list[Move]) -> bool:
    """Return whether a mint withheld a fee, so that less arrived than an event of the call says."""
    return any(sent != received for *_, sent, received in moved)


def flow_beside(moved: list[Move], owner: str) -> dict[str, int]:
    """Return the raw units of each mint that other parties gained from *owner*; negative: lost.

    They do not gain the fee that a mint withholds.  Transfers between the other parties do not
    count.
    """
    flow: dict[str, int] = {}
    for source, target, mint, sent, received in moved:
        if source == owner != target:
            flow[mint] = flow.get(mint, 0) + received
        elif target == owner != source:
            flow[mint] = flow.get(mint, 0) - sent
    return flow


def exchange_of(flow: dict[str, int]) -> Exchange | None:
    """Return the exchange in *flow*, the raw units of each mint that a party gained.

    Return None unless the party gained exactly one mint and lost exactly one.
    """
    if len(flow) != PARTIES:  # two mints need no filter: the comparisons refuse an amount of 0
        flow = {mint: gain for mint, gain in flow.items() if gain}
        if len(flow) != PARTIES:
            return None
    (one, gained), (other, lost) = flow.items()
    if gained < 0 < lost:
        return other, lost, one, -gained
    if lost < 0 < gained:
        return one, gained, other, -lost
    return None


def exchanges_of(moved: list[Move]) -> dict[str, Exchange]:
    """Return the exchange of each owner that gave one mint for another in *moved*, by owner.

    The order is that of the first moves of the owners.
    """
    flows: dict[str, dict[str, int]] = {}
    for source, target, mint, sent, received in moved:
        flow = flows.setdefault(source, {})
        flow[mint] = flow.get(mint, 0) - sent
        flow = flows.setdefault(target, {})
        flow[mint] = flow.get(mint, 0) + received
    found = {}
    for owner, flow in flows.items():
        if len(flow) > 1 and (exchange := exchange_of(flow)) is not None:
            found[owner] = exchange
    return found


def _each(call: Call, moved: list[Move], token_accounts: TokenAccounts) -> list[Swap]:
    """Return one swap for each party that exchanged two mints, except the trader.

    Such a party is a pool that owns its vaults.  The order is that of their first moves.  Raises
    Unreadable if no pool exchanged.
    """
    exchanges = exchanges_of(moved)
    signed = (signer for signer in token_accounts.signers if signer in exchanges)
    # Without a signer, the trader is the party that paid a pool first: the account of a router, or
    # a signer that sends the tokens on to another party, and so exchanged nothing.
    payers = (source for source, target, *_ in moved if target in exchanges)
    exchanges.pop(next(signed, next(payers, "")), None)
    if not exchanges:
        raise Unreadable(QuarantineReason.NO_MOVEMENT)
    return [
        swap_of(call, exchange, moved, token_accounts, leg=leg, pool=pool)
        for leg, (pool, exchange) in enumerate(exchanges.items())
    ]


def _opposite(
    call: Call, moved: list[Move], token_accounts: TokenAccounts
) -> tuple[str | None, Exchange | None]:
    """Return the trader, and the exchange of the pool; None for a value that is unknown."""
    exchanges = exchanges_of(moved)
    if not exchanges:
        return None, None
    trader = _initiator(exchanges, token_accounts)
    own = exchanges.pop(trader)
    match list(exchanges.values()):
        case [] if is_pool(trader, moved, token_accounts):
            return None, own
        case [] if _is_for_a_fee(call, own, trader, token_accounts):
            return trader, None
        case []:
            return trader, exchange_of(flow_beside(moved, trader))
        case [pool]:
            return trader, pool
        case _:
            return trader, None


def _is_for_a_fee(
    call: Call, exchange: Exchange, trader: str, token_accounts: TokenAccounts
) -> bool:
    """Return whether *exchange* exists only by lamports that are so few that they may be a fee."""
    sides = exchange[:PARTIES], exchange[PARTIES:]
    is_small = any(mint == WSOL and amount < LAMPORTS_MIN for mint, amount in sides)
    if not is_small or not call.lamports:
        return False
    return trader not in exchanges_of(moves(replace(call, lamports=[]), token_accounts))


def is_pool(party: str, moved: list[Move], token_accounts: TokenAccounts) -> bool:
    """Return whether *party* is the pool; otherwise it is the trader.

    No other party to *moved* exchanged one mint for another.
    """
    # A signer is the trader.  Another party is the pool if it traded with a signer; if it traded
    # with no signer, it is the pool if it received before it paid.
    signers = token_accounts.signers
    if party in signers:
        return False
    deals = [
        (source, target) for source, target, *_ in moved if (source == party) != (target == party)
    ]
    if any(source in signers or target in signers for source, target in deals):
        return True
    return bool(deals) and deals[0][1] == party


def _initiator(exchanges: dict[str, Exchange], token_accounts: TokenAccounts) -> str:
    """Return the trader: the first signer that exchanged, or else the first party of *exchanges*.

    Returns "" if *exchanges* is empty.
    """
    # Without a signer, the first party is the account of a router that trades for its user.
    for signer in token_accounts.signers:
        if signer in exchanges:
            return signer
    return next(iter(exchanges), "")


def _trader(exchange: Exchange, moved: list[Move], signers: Sequence[str]) -> str:
    """Return the signer that paid to the pool of *exchange*, or that received from it.

    Return the fee payer if no signer did.
    """
    received, _, paid, _ = exchange
    for source, target, mint, _, _ in moved:
        if mint == received and source in signers:
            return source
        if mint == paid and target in signers:
            return target
    return signers[0]


def changes_supply(call: Call) -> bool:
    """Return whether *call* minted or burned tokens."""
    return any(token.data[:1] in SUPPLY for token in call.tokens)


def makes_shares(
    call: Call, exchange: Exchange, token_accounts: TokenAccounts, trader: str | None
) -> bool:
    """Return whether *call* was a deposit or a withdrawal, in which shares are minted or burned.

    Minted tokens of a third mint are a fee, not shares, if their owner is neither the trader nor a
    signer.

    trader   None if unknown
    """
    traders = token_accounts.signers if trader is None else (trader, *token_accounts.signers)
    for token in call.tokens:
        head = data_of(token)[:1]
        if head not in SUPPLY:
            continue
        accounts = token.accounts
        if head not in MINT_TO or len(accounts) < PARTIES:
            return True
        mint = token_accounts.key(accounts[0])
        target = accounts[1]
        is_known = token_accounts.mint(target) is not None
        if mint in (exchange[0], exchange[2]) or not is_known:
            return True
        if token_accounts.owner(target) in traders:
            return True
    return False


def exchange_in(swap: Swap) -> Exchange:
    """Return the mints and amounts of *swap*."""
    return swap.in_mint, swap.in_amount, swap.out_mint, swap.out_amount


def is_of_one_piece(exchange: Exchange, token_accounts: TokenAccounts) -> bool:
    """Return whether one side of *exchange* is a single unit without decimals, like an NFT."""
    sides = exchange[:PARTIES], exchange[PARTIES:]
    return any(amount == 1 and token_accounts.decimals(mint) == 0 for mint, amount in sides)


def swap_of(  # noqa: PLR0913 - where, what and who
    call: Call,
    exchange: Exchange,
    moved: list[Move],
    token_accounts: TokenAccounts,
    *,
    leg: int,
    pool: str | None,  # its name; None: its two vaults name it
    owners: tuple[str, ...] = (),  # of the vaults; empty: every party except the trader
) -> Swap:
    """Return *exchange* as a swap of *call*, with its trader, its pool and the pool's balances.

    Raises Unreadable if an amount exceeds a u64, if a mint is not a valid address, if *pool* is
    None and no vault is known, or if an account that got another owner may belong to the pool.
    """
    received, gained, paid, lost = exchange
    # A sum of several transfers may not fit.
    if gained > U64_MAX or lost > U64_MAX:
        raise Unreadable(QuarantineReason.OVERFLOW)
    signers = token_accounts.signers
    trader = signers[0] if len(signers) == 1 else _trader(exchange, moved, signers)
    vaults = None if pool is None else token_accounts.vaults_of(owners, received, paid)
    if vaults is None:
        # Balances name the owner of an account after the transaction.  A trader could make the pool
        # the owner of the account that the pool has paid, so that the payment seems to stay there.
        # If *vaults* are the only accounts of their owners, the pool got no account.
        if has_new_owner(token_accounts):
            raise Unreadable(QuarantineReason.NO_MOVEMENT)
        accounts = _vaults(call, (received, paid), token_accounts, owners=owners, trader=trader)
        if pool is None:
            pool = _pair(accounts, token_accounts)
        taker, giver = (None if at is None else token_accounts.book.get(at) for at in accounts)
    else:
        taker, giver = vaults
    program = call.program
    in_decimals, in_left = token_accounts.held(received, taker)
    out_decimals, out_left = token_accounts.held(paid, giver)
    if program.is_pooled:
        in_left = out_left = None
    return new_swap(
        (
            token_accounts.signature,
            token_accounts.index,
            call.outer,
            call.inner,
            leg,
            program.name,
            pool,
            address(received),
            gained,
            in_decimals,
            address(paid),
            lost,
            out_decimals,
            trader,
            BY_TABLE,
            in_left,
            out_left,
            None,  # succeeds
            None,  # progress
            None,  # fee_bps
        )
    )


def _pair(vaults: Sequence[int | None], token_accounts: TokenAccounts) -> str:
    """Return the name of the pool with *vaults*: their two addresses.

    If one vault is unknown, the owner of the other vault is named in its place.  Raises Unreadable
    if both are unknown.
    """
    known = [vault for vault in vaults if vault is not None]
    if not known:
        raise Unreadable(QuarantineReason.NO_MOVEMENT)
    names = [token_accounts.key(vault) for vault in known]
    if len(names) < PARTIES:
        names.append(token_accounts.owner(known[0]))
    return BETWEEN_VAULTS.join(sorted(names))


def _vaults(
    call: Call,
    mints: tuple[str, str],  # the received and the paid mint
    token_accounts: TokenAccounts,
    *,
    owners: tuple[str, ...],  # of the vaults; empty: every party except *trader*
    trader: str,
) -> tuple[int | None, int | None]:
    """Return the indexes of the vault that received the most, and of the one that paid the most.

    A vault is None if no account of *owners* moved its mint.
    """
    received, paid = mints
    takers: dict[int, int] = {}
    givers: dict[int, int] = {}
    owner_of = token_accounts.owner
    for source, target, mint, amount in _flows(call, token_accounts):
        if mint is None or mint == received:
            owner = owner_of(target)
            if owner in owners if owners else owner != trader:
                takers[target] = takers.get(target, 0) + amount
        if mint is None or mint == paid:
            owner = owner_of(source)
            if owner in owners if owners else owner != trader:
                givers[source] = givers.get(source, 0) + amount
    return _largest(takers), _largest(givers)


def _largest(amounts: dict[int, int]) -> int | None:
    """Return the account with the largest amount; None if there is no account."""
    if len(amounts) > 1:
        # The index decides between equal amounts, so that the name of a pool never varies.
        return max(amounts, key=lambda account: (amounts[account], account))
    return next(iter(amounts), None)


def _flows(call: Call, token_accounts: TokenAccounts) -> list[Flow]:
    """Return the transfers that *call* made; `moves` must have checked their lengths before."""
    found: list[Flow] = []
    mint_of = token_accounts.mint
    for token in call.tokens:
        data = data_of(token)
        shape = SHAPES.get(data[:1]) or SHAPES.get(data[:2])
        if shape is not None:
            _, to, at = shape
            accounts = token.accounts
            source = accounts[0]
            target = accounts[to]
            mint = token_accounts.key(accounts[1]) if to > 1 else mint_of(source) or mint_of(target)
            found.append((source, target, mint, U64(data, at)[0]))
        elif data[:1] in UNWRAPPING and mint_of(token.accounts[0]) == WSOL:
            # The amount is 0, so that accounts that pay by transfer are preferred.
            found.append((token.accounts[0], token.accounts[1], WSOL, 0))
    for instruction in call.lamports:
        data = data_of(instruction)
        if data[:4] == SYSTEM_TRANSFER and len(instruction.accounts) >= PARTIES:
            source, target = instruction.accounts[:PARTIES]
            found.append((source, target, WSOL, int.from_bytes(data[4:12], "little")))
    return found
