"""The moves that one call made: transfers of tokens and of lamports, with both owners.

Wrapped SOL that leaves its account as lamports (CloseAccount, UnwrapLamports) counts as moved SOL.
WithdrawExcessLamports does not: the token programs refuse it for wrapped SOL, and lamports of other
accounts are not tokens.

A mint of Token-2022 may withhold a part of a transfer as a fee.  TransferCheckedWithFee names the
fee; for TransferChecked only the balances show it.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias

from mintscope.dex.base58 import data_of
from mintscope.dex.batch import FIRST_BYTE
from mintscope.dex.events import U64
from mintscope.dex.outcome import QuarantineReason, Unreadable
from mintscope.dex.program import Call
from mintscope.dex.token_accounts import SPL_2022, SYSTEM, TokenAccounts
from mintscope.solana.blocks import WSOL
from mintscope.solana.transaction import Instruction, TokenBalance

# First bytes of a transfer of tokens, with its minimum size, the position of the target among the
# accounts (1, or 2 if the mint is between), and the offset of the amount.  Decimals u8 and fee u64
# follow the amount if the size includes them.
SHAPES: Final = {
    b"\x03": (9, 1, 1),  # Transfer
    b"\x0c": (10, 2, 1),  # TransferChecked
    b"\x1a\x01": (19, 2, 2),  # TransferCheckedWithFee
}
FEE_AT: Final = 9  # the fee's offset from the amount: after the amount (u64) and decimals (u8)
# By first byte, the position of the account that MintTo, Burn and their checked forms change, and
# the sign of the change.
SUPPLIED: Final = {b"\x07": (1, 1), b"\x0e": (1, 1), b"\x08": (0, -1), b"\x0f": (0, -1)}
CLOSE: Final = b"\x09"
SYNC_NATIVE: Final = b"\x11"
UNWRAP: Final = b"\x2d"  # UnwrapLamports, then 0 (all), or 1 and an amount u64
UNWRAP_SIZE: Final = 10
UNWRAPPING: Final = frozenset({CLOSE, UNWRAP})
MOVING: Final = UNWRAPPING | SHAPES.keys()
"""First bytes of instructions that may change the owner of tokens or wrapped SOL."""
TOUCHING_LAMPORTS: Final = UNWRAPPING | {SYNC_NATIVE}
OPENING: Final = frozenset({b"\x01", b"\x10", b"\x12"})  # InitializeAccount, 2 and 3
# These do not change the amount of an account, except of wrapped SOL: all kinds of the token
# programs except SHAPES, SUPPLIED, UNWRAP, batches, withdrawals of withheld fees (26.2 and 26.3)
# and confidential transfers (27, 37 and 42).
STILL: Final = (
    OPENING
    | {CLOSE, SYNC_NATIVE, b"\x1a\x00", b"\x1a\x04", b"\x1a\x05"}
    | {bytes([kind]) for kind in (0, 2, 4, 5, 6, 10, 11, 13, *range(19, 26), *range(28, 37))}
    | {bytes([kind]) for kind in (38, 39, 40, 41, 43, 44)}
)
OPENING_OR_CLOSING: Final = OPENING | {CLOSE}
NEW_OWNER: Final = b"\x06\x02"  # SetAuthority, of the owner of an account
NONE: Final[frozenset[int]] = frozenset()
SYSTEM_TRANSFER: Final = b"\x02\x00\x00\x00"
SYSTEM_TRANSFER_SIZE: Final = 12
PARTIES: Final = 2
LAMPORTS_MIN: Final = 20_000_000
"""A minimum above rents and fees: the rent of a token account is a tenth of it, and programs charge
less for a claim or an account."""
BPS: Final = 10_000

Move: TypeAlias = tuple[str, str, str, int, int]
"""Source owner, target owner, mint, amount sent, amount received."""


def moves(call: Call, token_accounts: TokenAccounts) -> list[Move]:  # noqa: C901, PLR0912 - a hot loop
    """Return the moves of tokens and lamports by the instructions that *call* made, in order.

    Raises Unreadable if an instruction is cut short, or if an account or a mint is unknown.
    """
    found: list[Move] = []
    others: list[Instruction] = []
    book = token_accounts.book
    keys = token_accounts.keys
    try:
        for instruction in call.tokens:  # runs for every transfer; function calls would be slow
            data: Any = instruction.data  # bytes, see `Call`
            shape = SHAPES.get(data[:1]) or SHAPES.get(data[:2])
            if shape is None:
                if data[:1] in TOUCHING_LAMPORTS:
                    others.append(instruction)
                continue
            size, to, at = shape
            accounts = instruction.accounts
            if len(data) < size or len(accounts) <= to:
                raise Unreadable(QuarantineReason.TRUNCATED_INSTRUCTION)
            (sent,) = U64(data, at)
            received = sent
            source = book.get(accounts[0])
            target = book.get(accounts[to])
            if to > 1:
                mint = keys[accounts[1]]
                if call.token_2022:
                    received -= _fee(instruction, shape, sent, target, token_accounts)
            elif source is not None:
                mint = source.mint
                if target is not None and target.mint != mint:
                    # The balances show that an account was opened again, with another mint.
                    raise Unreadable(QuarantineReason.UNRESOLVED_MINT)
            elif target is not None:
                mint = target.mint
            else:
                mint = _temporary_mint(accounts, token_accounts)
            found.append(
                (
                    (source and source.owner) or keys[accounts[0]],
                    (target and target.owner) or keys[accounts[to]],
                    mint,
                    sent,
                    received,
                )
            )
    except IndexError:
        raise Unreadable(QuarantineReason.UNKNOWN_ACCOUNT) from None
    if others:
        return _with_wrapped(call, others, found, token_accounts)
    if call.lamports:
        found += _lamport_moves(call.lamports, NONE, token_accounts)
    return found


def has_new_owner(token_accounts: TokenAccounts) -> bool:
    """Return whether an account may have got another owner or mint in the transaction.

    It gets them by SetAuthority, or if it is closed and opened again with others.  An account that
    exists neither before nor after the transaction is known by its first owner.
    """
    # Cached, because a transaction of many swaps and openings took a quarter of a second.
    found = token_accounts.new_owner
    if found is None:
        found = token_accounts.new_owner = _finds_new_owner(token_accounts)
    return found


def _finds_new_owner(token_accounts: TokenAccounts) -> bool:
    opening: list[Instruction] = []
    closed: set[int] = set()
    reopened: set[int] = set()
    for token in token_accounts.token_instructions():
        data = data_of(token)
        kind = data[:1]
        if data[:2] == NEW_OWNER or kind == FIRST_BYTE:  # a batch that could not be expanded
            return True
        if kind not in OPENING_OR_CLOSING or not token.accounts:
            continue
        account = token.accounts[0]
        if kind == CLOSE:
            closed.add(account)
            continue
        opening.append(token)
        if account in closed:
            reopened.add(account)
    if not reopened:
        return False
    shown = token_accounts.shown(reopened)
    return any(
        _differs(token, shown.get(token.accounts[0], ()), token_accounts) for token in opening
    )


def _differs(
    opening: Instruction, shown: Sequence[TokenBalance], token_accounts: TokenAccounts
) -> bool:
    """Return whether *opening* gave an account another owner or mint than its balances *shown*."""
    if not shown:
        return False
    opened = token_accounts.opened_by(opening)
    return opened is None or any(
        one.mint != opened.mint or one.owner not in (None, opened.owner) for one in shown
    )


def _temporary_mint(accounts: Sequence[int], token_accounts: TokenAccounts) -> str:
    """Return the mint of a transfer between two accounts that the transaction closed.

    Raises Unreadable if the mint is unknown, or if the balances cannot be read.
    """
    token_accounts.complete()
    for account in accounts[:PARTIES]:
        if balance := token_accounts.book.get(account):
            return balance.mint
    raise Unreadable(QuarantineReason.UNRESOLVED_MINT)


# --- fees that mints withhold ----------------------------------------------------------------


def _fee(
    transfer: Instruction,
    shape: tuple[int, int, int],
    sent: int,
    target: TokenBalance | None,
    token_accounts: TokenAccounts,
) -> int:
    """Return the part of *sent*, the amount of *transfer*, that the mint withheld as a fee.

    The result is 0 if no fee is known.  It is also 0 if a signer receives the amount and the
    instruction names no fee, because no swap uses that amount.
    """
    size, to, at = shape
    fee = _named_fee(data_of(transfer), at, size)
    taker = transfer.accounts[to]
    if fee:
        return sent - _arrived(taker, max(sent - fee, 0), token_accounts)
    if fee == 0 or (target and target.owner in token_accounts.signers):
        return 0  # no swap uses the amount that a trader receives
    if not token_accounts.is_of(transfer, SPL_2022):
        return 0
    return _withheld(transfer, sent, taker, token_accounts)


def _named_fee(data: bytes, at: int, size: int) -> int | None:
    """Return the fee that a transfer names; None if transfers of this kind name no fee."""
    return int.from_bytes(data[at + FEE_AT : size], "little") if size > at + FEE_AT else None


def _arrived(account: int, named: int, token_accounts: TokenAccounts) -> int:
    """Return the raw units that a transfer added to *account*; *named* if no balance shows it."""
    # The balances show the gain if only this transfer touched the account.  Otherwise the gain is
    # *named*, the amount sent minus the named fee.
    if token_accounts.touches()[account] != 1:
        return named
    before = token_accounts.before(account) or 0
    after = token_accounts.after(account) or 0
    return after - before if after > before else named


def _withheld(transfer: Instruction, sent: int, account: int, token_accounts: TokenAccounts) -> int:
    """Return the fee that the mint withheld from *transfer*, as the balances show it.

    The result is 0 if the balances do not show a fee.

    sent      the amount that left the source
    account   the index of the account that received the transfer
    """
    gained = (token_accounts.after(account) or 0) - (token_accounts.before(account) or 0)
    if gained in {0, sent}:  # the gain was not recorded, or no fee was withheld
        return 0
    # Cached, because a transaction of many such transfers took half a second.
    fees = token_accounts.fees.get(account)
    if fees is None:
        fees = token_accounts.fees[account] = _fees_to(account, gained, token_accounts)
    return fees.get(id(transfer), 0)


def _fees_to(account: int, gained: int, token_accounts: TokenAccounts) -> dict[int, int]:
    """Return the fee withheld from each transfer to *account* that names no fee, by its `id`.

    The result is empty if the balances do not show fees.
    """
    kept = -gained
    unnamed: list[Instruction] = []
    amounts: list[int] = []
    for token in token_accounts.token_instructions():
        if account in token.accounts:
            change = _change(token, account)
            if change is None:
                return {}
            amount, is_unnamed = change
            kept += amount
            if is_unnamed:
                unnamed.append(token)
                amounts.append(amount)
    if not 0 < kept < sum(amounts):
        return {}
    return dict(zip(map(id, unnamed), _shares(kept, amounts), strict=True))


def _change(token: Instruction, account: int) -> tuple[int, bool] | None:
    """Return the change of *account* by *token*, an instruction of a token program.

    Also return whether a fee that the instruction does not name may reduce it.  Return None if the
    instruction is not understood.
    """
    data = token.data
    accounts = token.accounts
    if isinstance(data, str):
        return None
    shape = SHAPES.get(data[:1]) or SHAPES.get(data[:2])
    if shape is not None:
        size, to, _ = shape
        is_whole = len(data) >= size and len(accounts) > to
        return _transferred(data, shape, accounts, account) if is_whole else None
    if data[:1] in SUPPLIED and len(data) >= FEE_AT and len(accounts) >= PARTIES:
        at, sign = SUPPLIED[data[:1]]
        amount = int.from_bytes(data[1:FEE_AT], "little")
        return (sign * amount if accounts[at] == account else 0), False
    return (0, False) if data[:1] in STILL or data[:2] in STILL else None


def _transferred(
    data: bytes, shape: tuple[int, int, int], accounts: Sequence[int], account: int
) -> tuple[int, bool]:
    """Return the amount that *data*, a transfer, adds to *account*.

    Also return whether a fee that the transfer does not name may reduce it.
    """
    size, to, at = shape
    (amount,) = U64(data, at)
    fee = _named_fee(data, at, size)
    if account == accounts[to] != accounts[0]:
        return amount - (fee or 0), fee is None
    is_paying = account == accounts[0] != accounts[to]
    return (-amount if is_paying else 0), False


def _shares(kept: int, amounts: Sequence[int]) -> Sequence[int]:
    """Divide *kept*, the fees withheld in total, among *amounts*; return one fee for each."""

    # A mint withholds basis points of each amount, rounded up.  If no rate gives *kept* (the mint
    # may have a maximum fee), *kept* is split in proportion to *amounts*.
    def at(rate: int) -> list[int]:
        return [-(-amount * rate // BPS) for amount in amounts]

    total = sum(amounts)
    # Rounding up adds less than 1 to each fee, so only rates in this range can give *kept*.
    lowest = max((kept - len(amounts)) * BPS // total, 0)
    rates = range(lowest, kept * BPS // total + 1)
    above = bisect_right(rates, kept, key=lambda rate: sum(at(rate)))
    if above:
        shares = at(rates[above - 1])
        if sum(shares) == kept:
            return shares
    shares = [amount * kept // total for amount in amounts]
    shares[-1] += kept - sum(shares)
    return shares


# --- wrapped SOL and lamports ----------------------------------------------------------------


def _with_wrapped(
    call: Call, others: list[Instruction], found: list[Move], token_accounts: TokenAccounts
) -> list[Move]:
    """Add moves of lamports and unwrapped SOL to the transfers *found*, and return them.

    others   instructions of *call* that may wrap or unwrap SOL
    """
    if not token_accounts.is_complete:
        # Only the balances before the transaction show the owners of accounts that it closed.
        token_accounts.complete()
        return moves(call, token_accounts)
    synced = _synced(others)
    found += _lamport_moves(call.lamports, synced, token_accounts)
    # `_unwrapped` reads all of *found* before it yields its first move.
    found += _unwrapped(others, synced, found, token_accounts)
    return found


def _synced(tokens: Sequence[Instruction]) -> frozenset[int]:
    return frozenset(
        token.accounts[0] for token in tokens if token.data == SYNC_NATIVE and token.accounts
    )


def _lamport_moves(
    instructions: list[Instruction], synced: frozenset[int], token_accounts: TokenAccounts
) -> Iterator[Move]:
    """Yield the transfers of lamports among *instructions* of the system program.

    Lamports sent to a token account of a mint other than wrapped SOL are rent, and are left out.

    synced   accounts whose lamports became wrapped SOL.  Lamports sent to such an account count as
             sent to its owner if the sender or the owner is a signer.  All other lamports count
             as sent to the account itself

    Raises Unreadable if a transfer is cut short.
    """
    signers = token_accounts.signers
    for instruction in instructions:
        data = data_of(instruction)
        if data[:4] != SYSTEM_TRANSFER:
            continue
        if len(data) < SYSTEM_TRANSFER_SIZE or len(instruction.accounts) < PARTIES:
            raise Unreadable(QuarantineReason.TRUNCATED_INSTRUCTION)
        sent = int.from_bytes(data[4:12], "little")
        giver, taker = instruction.accounts[:PARTIES]
        source = token_accounts.key(giver)
        target = token_accounts.key(taker)
        if token_accounts.mint(taker) not in (None, WSOL):
            continue  # the rent of a token account
        if taker in synced:
            holder = _taker(taker, synced, token_accounts)
            if source in signers or holder in signers:
                target = holder
        yield source, target, WSOL, sent, sent


def _unwrapped(
    tokens: Sequence[Instruction],
    synced: frozenset[int],
    moved: Sequence[Move],
    token_accounts: TokenAccounts,
) -> Iterator[Move]:
    """Yield the moves of SOL that an owner unwrapped to an account of another party."""
    # SOL that a signer unwraps for another party counts only if that party is in *moved*: otherwise
    # the SOL pays a fee, for example.
    parties = {owner for move in moved for owner in move[:PARTIES]}
    for token in tokens:
        if data_of(token)[:1] not in UNWRAPPING:
            continue
        if len(token.accounts) < PARTIES:
            raise Unreadable(QuarantineReason.TRUNCATED_INSTRUCTION)
        source, target = token.accounts[:PARTIES]
        owner = _holder(source, token_accounts)
        taker = _taker(target, synced, token_accounts)
        if owner is None or owner == taker:
            continue
        if owner in token_accounts.signers and taker not in parties:
            continue
        amount = _unwrapped_amount(token, source, token_accounts)
        if amount:
            yield owner, taker, WSOL, amount, amount


def _taker(account: int, synced: frozenset[int], token_accounts: TokenAccounts) -> str:
    """Return the address that received lamports which were sent to *account*.

    If the lamports became wrapped SOL (*synced*), this is the owner of *account*, otherwise
    *account*.
    """
    holder = _holder(account, token_accounts) if account in synced else None
    return holder or token_accounts.key(account)


def _holder(account: int, token_accounts: TokenAccounts) -> str | None:
    """Return the owner of the wrapped SOL account *account*; None if it is not such an account."""
    balance = token_accounts.book.get(account)
    if balance is None or balance.mint != WSOL:
        return None
    return balance.owner or token_accounts.key(account)


def _unwrapped_amount(unwrap: Instruction, account: int, token_accounts: TokenAccounts) -> int:
    """Return the lamports that *unwrap* took from *account*: the amount in its data, or all.

    Raises Unreadable if a balance or the amount that an instruction names cannot be read.
    """
    named = _named_amount(unwrap)
    if named is not None:
        return named
    # Cached, because a batch of many such instructions took half a second.
    held = token_accounts.wrapped.get(account)
    if held is None:
        held = token_accounts.wrapped[account] = _held_before(account, token_accounts)
    if id(unwrap) not in held:
        raise Unreadable(QuarantineReason.TRUNCATED_INSTRUCTION)
    return held[id(unwrap)]


def _held_before(account: int, token_accounts: TokenAccounts) -> dict[int, int]:
    """Return the wrapped SOL in *account* before each instruction that unwraps SOL, by its `id`.

    Instructions after one that cannot be read are left out.
    """
    # The balance is the balance before the transaction plus all changes.  The lamports with which
    # an account is created are not part of it.
    found: dict[int, int] = {}
    held = token_accounts.before(account) or 0
    lamports = 0
    for instruction in token_accounts.moving_instructions():
        data = instruction.data
        accounts = instruction.accounts
        if isinstance(data, str) or account not in accounts:
            continue
        if token_accounts.is_of(instruction, SYSTEM):
            lamports += _lamports_to(account, instruction)
        elif data[:1] == SYNC_NATIVE:
            held += lamports
            lamports = 0
        elif data[:1] in OPENING:
            held = 0
            lamports = 0
        elif data[:1] in UNWRAPPING:
            found[id(instruction)] = max(held, 0)
            try:
                held -= _taken(instruction, account, held)
            except Unreadable:
                return found
        else:
            change = _change(instruction, account)
            held += 0 if change is None else change[0]
    return found


def _lamports_to(account: int, instruction: Instruction) -> int:
    """Return the lamports that *instruction* of the system program transferred to *account*."""
    data = data_of(instruction)
    to = instruction.accounts[1:PARTIES]
    is_transfer = data[:4] == SYSTEM_TRANSFER and len(to) == 1 and to[0] == account
    return int.from_bytes(data[4:12], "little") if is_transfer else 0


def _taken(unwrap: Instruction, account: int, held: int) -> int:
    """Return the amount that *unwrap* took from *account*, which held *held* before."""
    if unwrap.accounts[0] != account:
        return 0
    named = _named_amount(unwrap)
    return held if named is None else named


def _named_amount(unwrap: Instruction) -> int | None:
    """Return the lamports that *unwrap* names; None if it takes the whole balance.

    Raises Unreadable if the data cannot be read.
    """
    data = data_of(unwrap)
    if data[:2] != UNWRAP + b"\x01":
        return None
    if len(data) < UNWRAP_SIZE:
        raise Unreadable(QuarantineReason.TRUNCATED_INSTRUCTION)
    return int.from_bytes(data[2:UNWRAP_SIZE], "little")
