"""pump.fun, whose swaps are read from events, because a sale moves lamports without a transfer."""

from functools import lru_cache
from typing import Final, NamedTuple

from based58 import b58encode

from mintscope.dex import base58, transfers
from mintscope.dex.base58 import data_of
from mintscope.dex.events import FIELDS_AT, SELF_CALL, u64
from mintscope.dex.moves import moves
from mintscope.dex.outcome import BY_TABLE, QuarantineReason, Swap, Unreadable, new_swap
from mintscope.dex.program import Call, Leg
from mintscope.dex.token_accounts import TokenAccounts, address
from mintscope.kit.primitives import PUBKEY_BYTES
from mintscope.solana.blocks import WSOL

TRADE_EVENT: Final = SELF_CALL + bytes.fromhex("bddb7fd34ee661ee")
SOL_AMOUNT = 32
TOKEN_AMOUNT = 40
IS_BUY = 48
USER = 49
SOL_RESERVE = 89
RESERVE_MAX: Final = 10**18  # raw units of the quote; more lamports than exist
TAIL: Final = 250  # after this offset, strings and lists make the offsets of fields vary
DECIMALS: Final = 6  # of every mint of the program
TRANSFERS: Final = frozenset({b"\x03", b"\x0c"})  # Transfer, TransferChecked


class SwapAccounts(NamedTuple):
    """Positions among the accounts of a swap instruction; *quote* is None if SOL is the quote."""

    mint: int
    user: int
    curve: int
    quote: int | None


class Parties(NamedTuple):
    """The addresses of a trade; *curve* is None if it is unknown."""

    mint: str
    user: str
    curve: str | None
    quote: str


V1: Final = SwapAccounts(mint=2, user=6, curve=3, quote=None)
V2: Final = SwapAccounts(mint=1, user=13, curve=10, quote=2)
V3: Final = SwapAccounts(mint=1, user=8, curve=5, quote=2)
LEG_V1: Final = Leg((V1.curve,), V1.curve)
LEG_V2: Final = Leg((V2.curve,), V2.curve)
LEG_V3: Final = Leg((V3.curve,), V3.curve)
ACCOUNTS_OF: Final = {LEG_V1: V1, LEG_V2: V2, LEG_V3: V3}


def read(call: Call, legs: tuple[Leg, ...], token_accounts: TokenAccounts) -> list[Swap]:
    """Return the swap in the event of *call*, or, without an event, in its transfers.

    The result is empty if nothing was traded.  Raises Unreadable if the event disagrees with the
    accounts or with the transfers, for example.
    """
    event = _trade(call)
    if event is None:
        return transfers.read(call, legs, token_accounts)
    layout = ACCOUNTS_OF[legs[0]]
    accounts = call.instruction.accounts
    if len(accounts) <= max(layout.user, layout.curve):
        raise Unreadable(QuarantineReason.TRUNCATED_INSTRUCTION)
    key = token_accounts.key
    mint = key(accounts[layout.mint])
    user = key(accounts[layout.user])
    curve = key(accounts[layout.curve])
    quote = WSOL if layout.quote is None else key(accounts[layout.quote])
    if event[FIELDS_AT : FIELDS_AT + PUBKEY_BYTES] != _public_key(mint):
        raise Unreadable(QuarantineReason.EVENT_DISAGREES)
    return _swaps_of_event(call, event, Parties(mint, user, curve, quote), token_accounts)


def read_event(call: Call, token_accounts: TokenAccounts) -> list[Swap]:
    """Return the swap in the trade event that *call* of pump.fun published.

    The list is empty if there is no such event, or if nothing was traded.  The instruction may be
    unknown: only the event and the moves are read.  The pool is the only party besides trader and
    signers that moved the mint; if there is none or several, the mint itself names the pool.  The
    quote is the mint in the transaction whose address the end of the event contains, or else SOL.

    Raises Unreadable if the event or the moves cannot be read, or if they differ.
    """
    event = _trade(call) if call.program.name == "pumpfun" else None
    if event is None:
        return []
    mint = _address(event, 0)
    user = _address(event, USER)
    token_accounts.complete()
    sides = {side for move in moves(call, token_accounts) if move[2] == mint for side in move[:2]}
    sides -= {user, *token_accounts.signers}
    curve = sides.pop() if len(sides) == 1 else None
    tail = event[FIELDS_AT + TAIL :]
    mints = {balance.mint for balance in token_accounts.book.values()} - {mint}
    quote = next((each for each in sorted(mints) if _public_key(each) in tail), WSOL)
    return _swaps_of_event(call, event, Parties(mint, user, curve, quote), token_accounts)


def _trade(call: Call) -> bytes | None:
    for event in map(data_of, call.events):
        if event.startswith(TRADE_EVENT):
            return event
    return None


def _address(event: bytes, at: int) -> str:
    key = event[FIELDS_AT + at : FIELDS_AT + at + PUBKEY_BYTES]
    if len(key) < PUBKEY_BYTES:
        raise Unreadable(QuarantineReason.TRUNCATED_EVENT)
    return b58encode(key).decode()


def _swaps_of_event(
    call: Call, event: bytes, parties: Parties, token_accounts: TokenAccounts
) -> list[Swap]:
    """Return the swap of *event*; an empty list if nothing was traded."""
    mint, user, curve, quote = parties
    tokens = u64(event, TOKEN_AMOUNT)
    _confirm(call, tokens)
    quotes = u64(event, SOL_AMOUNT) if quote == WSOL else _quote_amount(event, quote)
    if not tokens or not quotes:
        if tokens or quotes:
            raise Unreadable(QuarantineReason.NO_MOVEMENT)
        return []
    decimals = token_accounts.decimals(mint)
    token_side = address(mint), tokens, DECIMALS if decimals is None else decimals
    quote_side = address(quote), quotes, token_accounts.decimals(quote)
    is_buy = event[FIELDS_AT + IS_BUY : FIELDS_AT + IS_BUY + 1] == b"\x01"
    received, paid = (quote_side, token_side) if is_buy else (token_side, quote_side)
    if quote == WSOL:
        left = _reserve_at(event, FIELDS_AT + SOL_RESERVE)
    else:
        left = _quote_reserve(event, quote)
    signer = user if user in token_accounts.signers else token_accounts.signers[0]
    return [
        new_swap(
            (
                token_accounts.signature,
                token_accounts.index,
                call.outer,
                call.inner,
                0,
                call.program.name,
                curve or mint,  # a mint has only one curve
                *received,
                *paid,
                signer,
                BY_TABLE,
                left if is_buy else None,
                None if is_buy else left,
                None,  # succeeds
                None,  # progress
                None,  # fee_bps
            )
        )
    ]


def _reserve_at(event: bytes, at: int) -> int | None:
    """Return the reserve at byte *at* of *event*: after the trade, with the virtual reserve.

    Return None if *event* is too short, or if the number is not below RESERVE_MAX.
    """
    reserve = int.from_bytes(event[at : at + 8], "little")
    return reserve if len(event) >= at + 8 and reserve < RESERVE_MAX else None


def _quote_reserve(event: bytes, quote: str) -> int | None:
    """Return the reserve in raw units of *quote*, which is not SOL; None if *event* shows none."""
    # In the tail of *event*, the quote's address is followed by the amount, then by the reserve.
    at = event.rfind(base58.decode(quote), FIELDS_AT + TAIL)
    return None if at < 0 else _reserve_at(event, at + PUBKEY_BYTES + 8)


@lru_cache(maxsize=4096)
def _public_key(mint: str) -> bytes:
    return base58.decode(mint)


def _confirm(call: Call, tokens: int) -> None:
    """Raise Unreadable if *call* made transfers, but none of exactly *tokens* raw units."""
    moved = {
        int.from_bytes(data[1:9], "little")
        for data in map(data_of, call.tokens)
        if data[:1] in TRANSFERS
    }
    if moved and tokens not in moved:
        raise Unreadable(QuarantineReason.EVENT_DISAGREES)


def _quote_amount(event: bytes, quote: str) -> int:
    """Return the number that follows the address of *quote* at the end of *event*.

    Raises Unreadable if the address is not there.
    """
    at = event.rfind(base58.decode(quote), FIELDS_AT + TAIL)
    if at < 0:
        raise Unreadable(QuarantineReason.TRUNCATED_EVENT)
    return u64(event, at - FIELDS_AT + PUBKEY_BYTES)
