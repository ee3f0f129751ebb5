"""Reads unknown instructions of listed programs, and reports exchanges that cannot be read.

An unknown instruction is read by its swap event, if it has one.  Otherwise an exchange of two mints
is reported, for a person to examine.

A call of an unlisted program is reported if its transfers show an exchange, but not its amounts or
its vaults:

Lamports         a signer's tokens moved in one direction and lamports in the other.  The lamports
                 of a sale may leave an account of the call without a transfer
Vault programs   only the transfers of the call and of one inner program together gave a signer one
                 mint for another
Own accounts     the call exchanged tokens from its own accounts, and also called a venue
Unknown vaults   a signer gave one mint for another, but not exactly one owner made the opposite
                 exchange

Not reported     lamports below `LAMPORTS_MIN`, which are rent or fees, unless the Anchor
                 instruction has a name such as `buy`, `sell` or `swap`
                 calls in which shares are minted or burned; one piece of a mint without decimals
                 transfers of several inner programs: for example, a bot withdraws from one program
                 and deposits in another.  Then only the transfers of the call itself count
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from based58 import b58encode
from msgspec.structs import replace

from mintscope.dex import base58, batch, events, pumpfun
from mintscope.dex.base58 import data_of
from mintscope.dex.curves import sent_to_each
from mintscope.dex.events import FIELDS_AT, u64
from mintscope.dex.moves import (
    LAMPORTS_MIN,
    MOVING,
    PARTIES,
    SHAPES,
    SYSTEM_TRANSFER,
    SYSTEM_TRANSFER_SIZE,
    moves,
)
from mintscope.dex.outcome import EXCHANGES, Moved, QuarantineReason, Swap, Unreadable
from mintscope.dex.program import EVENT_ACCOUNTS_MAX, Call
from mintscope.dex.token_accounts import SPL_2022, SPL_PROGRAMS, SYSTEM, TokenAccounts
from mintscope.dex.transfers import (
    Exchange,
    changes_supply,
    exchange_of,
    exchanges_of,
    flow_of,
    has_fee,
    is_of_one_piece,
    makes_shares,
    swap_of,
)
from mintscope.kit.primitives import PUBKEY_BYTES
from mintscope.solana.blocks import DOLLARS, WSOL
from mintscope.solana.transaction import Instruction


def read(call: Call, token_accounts: TokenAccounts) -> list[Swap]:
    """Return the swaps in the events of *call*; empty if *call* exchanged nothing.

    Raises Unreadable, with UNKNOWN_INSTRUCTION, if no event shows a swap, but a party gave one mint
    for another, and no tokens were minted or burned.  Also raises Unreadable if events, transfers
    or balances cannot be read, or if an event and the transfers differ.
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
    """Raise Unreadable if a signer exchanged mints in *call*, although no swap was read from it."""
    exchanges = _exchanges(call, token_accounts)
    signed = [exchanges[signer] for signer in token_accounts.signers if signer in exchanges]
    report(call, signed, token_accounts)


def moved_of(exchanges: Iterable[Exchange]) -> Moved | None:
    """Return the largest amount of dollars in *exchanges*, else of SOL; None if neither moved."""
    sides = (side for one in exchanges for side in (one[:PARTIES], one[PARTIES:]))
    quotes = [Moved(mint, amount) for mint, amount in sides if mint in DOLLARS or mint == WSOL]
    return max(quotes, key=lambda moved: (moved.quote in DOLLARS, moved.amount), default=None)


def moved_by(call: Call, token_accounts: TokenAccounts) -> Moved | None:
    """Return the SOL or dollar tokens that *call* exchanged; None if this is unknown.

    Used for a call that cannot be read.
    """
    try:
        moved = moved_of(exchanges_of(moves(call, token_accounts)).values())
        return moved or moved_of(_exchanged(call, token_accounts))
    except Unreadable:
        return None


def read_events(call: Call, token_accounts: TokenAccounts) -> list[Swap]:
    """Return one swap for each swap event of *call* with a known layout, in order.

    Raises Unreadable if the pool of an event did not exchange two mints, if events, transfers or
    balances cannot be read, or if `events.verify` finds a difference.
    """
    swaps: list[Swap] = []
    published = list(events.published(call))
    if not published:
        return swaps
    token_accounts.complete()
    moved = moves(call, token_accounts)
    for leg, (data, layout) in enumerate(published):
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
    if not has_fee(moved):
        events.verify(call, swaps)
    return swaps


def _exchanged(call: Call, token_accounts: TokenAccounts) -> Sequence[Exchange]:
    """Return the exchange of each party to *call*; empty if tokens were minted or burned."""
    return () if changes_supply(call) else tuple(_exchanges(call, token_accounts).values())


def _exchanges(call: Call, token_accounts: TokenAccounts) -> Mapping[str, Exchange]:
    """Return the exchange of each party to *call* that gave one mint for another, by owner."""
    # Lamports do not count, because a claim of fees pays rent with them.
    if len(call.tokens) < PARTIES:
        return {}
    token_accounts.complete()
    try:
        return exchanges_of(moves(replace(call, lamports=[], token_2022=False), token_accounts))
    except Unreadable:  # it is unknown whether *call* exchanged
        return {}


TRANSFER_TEXT_MAX: Final = 17
"""The maximum number of base58 digits of the 12 bytes of a transfer."""
SMALL: Final = 10
"""A party that passes tokens on keeps a smaller part than 1/SMALL of them as its fee."""
# The system program: CreateAccount, Assign, CreateAccountWithSeed, Allocate.  They open accounts;
# lamports sent to these are rent.
OPENING: Final = frozenset(bytes([kind, 0, 0, 0]) for kind in (0, 1, 3, 8))


def may_exchange(whole: Call, call: Call, token_accounts: TokenAccounts) -> bool:
    """Return whether the transfers of *whole* may be an exchange, by a cheap test.

    May return True for transfers that are no exchange.

    whole   *call* itself, or *call* with the transfers of the calls inside it
    """
    if not any(one.data[:1] in SHAPES or one.data[:PARTIES] in SHAPES for one in whole.tokens):
        return False
    if whole is not call and not _is_of_one_mint(whole.tokens, token_accounts):
        return True
    # A single mint may have been exchanged for lamports, if lamports or tokens of a signer moved.
    signers = token_accounts.signers
    return bool(whole.lamports) or any(
        account < len(signers) or token_accounts.owner(account) in signers
        for token in whole.tokens
        for account in token.accounts
    )


def expect_none(whole: Call, call: Call, token_accounts: TokenAccounts) -> None:
    """Raise Unreadable, with UNKNOWN_EXCHANGE, if a signer exchanged tokens in *whole*.

    Exchanges in the list "Not reported", at the top of this module, raise no error.  Also raises
    Unreadable if transfers or balances cannot be read.

    whole   *call* itself, or *call* with the transfers of the calls inside it; no swap was read
            from it
    """
    is_of_two = whole is not call and not _is_of_one_mint(whole.tokens, token_accounts)
    if not (is_of_two or token_accounts.is_complete or _has_lamports(whole, token_accounts)):
        return  # a cheap test, before the balances are parsed
    token_accounts.complete()
    moved = moves(replace(whole, lamports=[]), token_accounts)
    if is_of_two:
        exchanges = exchanges_of(moved)
        traded = [exchanges[one] for one in token_accounts.signers if one in exchanges]
        report(whole, traded, token_accounts)
    for at, signer in enumerate(token_accounts.signers):
        flow = {mint: gain for mint, gain in flow_of(moved, (signer,)).items() if gain}
        if len(flow) == 1 and WSOL not in flow:
            ((mint, gain),) = flow.items()
            _expect_no_lamports(whole, at, mint, gain, token_accounts)


def expect_none_beside(call: Call, token_accounts: TokenAccounts) -> None:
    """Raise Unreadable, with UNKNOWN_EXCHANGE, if *call* exchanged in addition to its inner calls.

    Also raises Unreadable if transfers or balances cannot be read.
    """
    # Tokens that are passed on are received and paid out again.  If both parties to the transfers
    # of *call* also exchanged in all transfers below it, neither has only passed tokens on.
    if _is_of_one_mint(call.tokens, token_accounts):
        return
    token_accounts.complete()
    exchanges = exchanges_of(moves(replace(call, lamports=[]), token_accounts))
    if len(exchanges) < PARTIES:
        return
    everything = moves(_everything(call, token_accounts), token_accounts)
    kept = []
    for party, exchange in exchanges.items():
        _, _, paid, amount = exchange
        flow = flow_of(everything, (party,))
        if max(flow.values(), default=0) > 0 and -flow.get(paid, 0) * SMALL >= amount:
            kept.append(exchange)
    if len(kept) >= PARTIES:
        report(call, kept, token_accounts)


def report(call: Call, traded: Iterable[Exchange], token_accounts: TokenAccounts) -> None:
    """Raise Unreadable, with UNKNOWN_EXCHANGE, if one of *traded* was really an exchange.

    It was none if *call* minted or burned shares, or if one side was an NFT.

    traded   the apparent exchanges of parties to *call*
    """
    # *traded* are no exchanges if shares were minted or burned, or if an NFT was traded.
    traded = [one for one in traded if not is_of_one_piece(one, token_accounts)]
    if traded and not makes_shares(call, traded[0], token_accounts, None):
        raise _unknown(call, moved_of(traded))


def _unknown(call: Call, moved: Moved | None) -> Unreadable:
    head = base58.head(call.instruction.data).hex()
    return Unreadable(QuarantineReason.UNKNOWN_EXCHANGE, head, moved)


def with_inner(call: Call, inner: Sequence[Call], token_accounts: TokenAccounts) -> Call:
    """Return *call* with the transfers of *inner* added.

    Return *call* itself if *inner* is empty, or if several programs in it moved tokens.

    inner   calls of unlisted programs inside *call*, which exchanged nothing
    """
    moving = {one.instruction.program_id_index for one in inner if one.tokens}
    if len(inner) == 0 or len(moving) > 1:
        return call
    tokens = list(call.tokens)
    lamports = list(call.lamports)
    is_2022 = call.token_2022
    for one in inner:
        tokens += batch.expand(one.tokens, token_accounts.opened)
        lamports += one.lamports
        is_2022 = is_2022 or one.token_2022
    return replace(call, tokens=tokens, lamports=lamports, token_2022=is_2022)


def _everything(call: Call, token_accounts: TokenAccounts) -> Call:
    """Return a copy of *call* that has the transfers of all the calls inside it, of any program."""
    whole = Call(call.program, call.instruction, call.outer, call.inner)
    height = 1 if call.inner < 0 else call.instruction.stack_height or 0
    tokens: list[Instruction] = []
    for one in token_accounts.inner[call.outer][call.inner + 1 :]:
        if one.stack_height is not None and one.stack_height <= height:
            break
        program = token_accounts.key(one.program_id_index)
        if program in SPL_PROGRAMS:
            tokens.append(one)
            whole.token_2022 = whole.token_2022 or program == SPL_2022
        elif program == SYSTEM:
            whole.lamports.append(one)
    whole.tokens = batch.expand(tokens, token_accounts.opened)
    return whole


def _is_of_one_mint(tokens: Sequence[Instruction], token_accounts: TokenAccounts) -> bool:
    """Return whether *tokens* has moves, and all are certainly of one mint, like a bot's fees."""
    mints = set()
    for token in tokens:
        data = data_of(token)
        if token.accounts and not MOVING.isdisjoint((data[:1], data[:PARTIES])):
            mints.add(token_accounts.mint(token.accounts[0]))
    return len(mints) == 1 and None not in mints


# --- lamports --------------------------------------------------------------------------------


def _expect_no_lamports(
    call: Call, at: int, mint: str, gain: int, token_accounts: TokenAccounts
) -> None:
    """Raise Unreadable if a signer exchanged tokens of *mint* for lamports.

    A purchase is paid by transfer; the payment of a sale may be visible only in the balances.

    at     index of the signer
    gain   raw units that the signer gained; negative in a sale
    """
    signer = token_accounts.signers[at]
    least = _least(call)
    is_shared = False
    if gain > 0:
        lamports = _paid(call, signer, token_accounts)
    else:
        lamports = _received(call, signer, token_accounts)
        if lamports < least:
            lamports, is_shared = _taken(call, at, token_accounts)
    if lamports < least:
        return
    exchange = mint, abs(gain), WSOL, lamports
    is_piece = is_of_one_piece(exchange, token_accounts)
    if not is_piece and not makes_shares(call, exchange, token_accounts, None):
        raise _unknown(call, None if is_shared else Moved(WSOL, lamports))


def _has_lamports(call: Call, token_accounts: TokenAccounts) -> bool:
    """Return whether enough lamports for an exchange moved in *call*, or left its accounts."""
    least = _least(call)
    transfers = [_transferred(one, token_accounts) for one in call.lamports]
    if any(one[2] >= least for one in transfers if one is not None):
        return True
    for at in range(len(token_accounts.signers)):
        own = token_accounts.lamports(at)
        if own is not None and own[0] < own[1]:
            # The lamports that left the accounts are the same for each signer that gained some.
            return _taken(call, at, token_accounts)[0] >= least
    return False


def _least(call: Call) -> int:
    """Return the smallest number of lamports that may belong to an exchange in *call*."""
    return 1 if base58.head(call.instruction.data) in EXCHANGES else LAMPORTS_MIN


def _paid(call: Call, signer: str, token_accounts: TokenAccounts) -> int:
    """Return the largest sum of lamports that *signer* sent in *call* to one account, or 0.

    Accounts of signers, and accounts that receive lamports only as rent, do not count.
    """
    # Accounts that *call* opens do not count, because lamports sent to them are rent.
    new: set[int] = set()
    sent: dict[int, int] = {}
    for instruction in call.lamports:
        data = data_of(instruction)
        accounts = instruction.accounts
        if data[:4] in OPENING:
            new.update(accounts[:PARTIES])
        transfer = _transferred(instruction, token_accounts)
        if transfer is not None and transfer[0] == signer:
            _, target, amount = transfer
            if not _is_of_signers(accounts[1], target, token_accounts):
                sent[accounts[1]] = sent.get(accounts[1], 0) + amount
    # Filtered at the end: lamports may arrive before the account is opened.
    return max((amount for target, amount in sent.items() if target not in new), default=0)


def _received(call: Call, signer: str, token_accounts: TokenAccounts) -> int:
    """Return the lamports that *signer* received from parties that did not sign."""
    transfers = (_transferred(one, token_accounts) for one in call.lamports)
    signers = token_accounts.signers
    return sum(
        amount
        for source, target, amount in filter(None, transfers)
        if target == signer and source not in signers
    )


def _transferred(
    instruction: Instruction, token_accounts: TokenAccounts
) -> tuple[str, str, int] | None:
    """Return source, target and lamports of *instruction*; None if it is not a transfer."""
    if len(instruction.data) > TRANSFER_TEXT_MAX:
        return None  # too long for a transfer
    data = data_of(instruction)
    accounts = instruction.accounts
    is_whole = len(data) >= SYSTEM_TRANSFER_SIZE and len(accounts) >= PARTIES
    if data[:4] != SYSTEM_TRANSFER or not is_whole:
        return None
    amount = int.from_bytes(data[4:SYSTEM_TRANSFER_SIZE], "little")
    return token_accounts.key(accounts[0]), token_accounts.key(accounts[1]), amount


def _is_of_signers(account: int, address: str, token_accounts: TokenAccounts) -> bool:
    """Return whether *account* is a signer, is owned by one, or receives lamports only as rent."""
    mint = token_accounts.mint(account)
    if mint is None:
        return address in token_accounts.signers
    return mint != WSOL or token_accounts.owner(account) in token_accounts.signers


def _taken(call: Call, signer: int, token_accounts: TokenAccounts) -> tuple[int, bool]:
    """Return the most lamports that left one account of *call* without a transfer.

    Also return whether another instruction of the program may have taken a part of them.  Signers,
    token accounts and closed accounts do not count.

    signer   index of the receiver; if it did not gain lamports, the result is (0, False)
    """
    own = token_accounts.lamports(signer)
    if own is None or own[1] <= own[0]:
        return 0, False
    sent = sent_to_each(token_accounts.system_instructions())
    most = 0
    taken_from = -1
    for account in dict.fromkeys(call.instruction.accounts):
        held = token_accounts.lamports(account)
        if held is None or not held[1]:  # the account was closed, and its rent returned
            continue
        if account < len(token_accounts.signers) or token_accounts.mint(account) is not None:
            continue
        lost = held[0] - held[1] + sent[account]
        if lost > most:
            most = lost
            taken_from = account
    program = call.instruction.program_id_index
    naming = [
        one
        for one in token_accounts.instructions(program)
        if len(one.accounts) > EVENT_ACCOUNTS_MAX and taken_from in one.accounts
    ]
    return most, len(naming) > 1
