"""Manifest: swaps move tokens, but orders placed by a batch are filled inside the market.

BatchUpdate places and cancels orders.  Fills change balances that the market keeps, and
call no token program.  The log alone shows them: one FillLog for each maker, with both mints and
amounts (github.com/CKS-Systems/manifest, `logs.rs`).  The fills of one order are one swap.
"""

from base64 import b64decode
from binascii import Error
from collections.abc import Sequence
from typing import Final, NamedTuple

from based58 import b58encode

from mintscope.dex.outcome import QuarantineReason, Swap, Unreadable
from mintscope.dex.program import Call, Leg
from mintscope.dex.token_accounts import TokenAccounts, address
from mintscope.dex.transfers import U64_MAX, read_closed
from mintscope.kit.primitives import PUBKEY_BYTES

BATCH_UPDATE: Final = Leg((0,), 1)
"""The accounts of BatchUpdate: who places the orders, and the market."""
FILL_LOG: Final = bytes.fromhex("3ae6f2034b7104a9")
MARKET_AT = 8
TAKER_AT = 72
BASE_MINT_AT = 104
QUOTE_MINT_AT = 136
BASE_AMOUNT_AT = 184
QUOTE_AMOUNT_AT = 192
TAKER_ORDER_AT = 208
IS_BUY_AT = 216
LOG_DATA: Final = "Program data: "
TRUNCATED: Final = "Log truncated"
WORDS: Final = 3  # of the lines of calls: Program, its address, what it did


def read(call: Call, legs: tuple[Leg, ...], token_accounts: TokenAccounts) -> list[Swap]:
    """Return the swaps of *call*: for a batch those in the log, else those from transfers.

    Raises Unreadable, with TRUNCATED_LOG if the log ended before or was not recorded, and with
    EVENT_DISAGREES if it names another market.
    """
    if BATCH_UPDATE not in legs:
        return read_closed(call, legs, token_accounts)
    accounts = call.instruction.accounts
    if len(accounts) < BATCH_UPDATE.size:
        raise Unreadable(QuarantineReason.TRUNCATED_INSTRUCTION)
    market = token_accounts.key(accounts[1])
    orders: dict[_Order, list[int]] = {}
    for fill in _fills(call, token_accounts):
        if _address(fill, MARKET_AT) != market:
            raise Unreadable(QuarantineReason.EVENT_DISAGREES)
        order = _Order(
            taker=_address(fill, TAKER_AT),
            base=_address(fill, BASE_MINT_AT),
            quote=_address(fill, QUOTE_MINT_AT),
            number=_amount(fill, TAKER_ORDER_AT),
            is_buy=fill[IS_BUY_AT] == 1,
        )
        amounts = orders.setdefault(order, [0, 0])
        amounts[0] += _amount(fill, BASE_AMOUNT_AT)
        amounts[1] += _amount(fill, QUOTE_AMOUNT_AT)
    return [
        _swap(call, leg, order, orders[order], token_accounts)
        for leg, order in enumerate(orders)
        if min(orders[order]) > 0  # else an order of dust, that traded something for nothing
    ]


class _Order(NamedTuple):
    """An order that was filled when it was placed."""

    taker: str
    base: str
    quote: str
    number: int
    is_buy: bool


def _swap(
    call: Call, leg: int, order: _Order, amounts: Sequence[int], token_accounts: TokenAccounts
) -> Swap:
    """Return the swap of *order*; *amounts* are its base and quote amounts."""
    if max(amounts) > U64_MAX:
        raise Unreadable(QuarantineReason.OVERFLOW)
    base = address(order.base), amounts[0], token_accounts.decimals(order.base)
    quote = address(order.quote), amounts[1], token_accounts.decimals(order.quote)
    received, paid = (quote, base) if order.is_buy else (base, quote)
    signers = token_accounts.signers
    return Swap(
        token_accounts.signature,
        token_accounts.index,
        call.outer,
        call.inner,
        leg,
        call.program.name,
        token_accounts.key(call.instruction.accounts[1]),
        *received,
        *paid,
        order.taker if order.taker in signers else signers[0],
    )


def _fills(call: Call, token_accounts: TokenAccounts) -> list[bytes]:
    """Return the fills of *call* that are in the log.

    Raises Unreadable, with TRUNCATED_LOG, if not all of it was recorded.
    """
    log = token_accounts.log()
    own = token_accounts.instructions(call.instruction.program_id_index)
    number = next(n for n, one in enumerate(own) if one is call.instruction)
    published = payloads(call.program.address, log)
    if TRUNCATED in log or len(published) != len(own):
        raise Unreadable(QuarantineReason.TRUNCATED_LOG)
    return [data for data in published[number] if data[: len(FILL_LOG)] == FILL_LOG]


def payloads(program: str, log: Sequence[str]) -> list[list[bytes]]:
    """Return the data that each call of *program* logged, in order of execution.

    A line of a program's own text begins with "Program log: ", whatever it says.
    """
    found: list[list[bytes]] = []
    running: list[list[bytes]] = []
    for line in log:
        if line.startswith(LOG_DATA):
            if running:
                running[-1].append(_decoded(line[len(LOG_DATA) :]))
            continue
        words = line.split(" ", WORDS)
        if len(words) < WORDS or words[0] != "Program" or words[1].endswith(":"):
            continue
        if words[2] == "invoke":
            running.append([])
            if words[1] == program:
                found.append(running[-1])
        elif words[2] in ("success", "failed:") and running:
            running.pop()
    return found


def _decoded(text: str) -> bytes:
    """Return the first part of the data *text*, empty if it is not base64."""
    try:
        return b64decode(text.split(" ", 1)[0], validate=True)
    except Error:
        return b""


def _address(fill: bytes, at: int) -> str:
    key = fill[at : at + PUBKEY_BYTES]
    if len(key) < PUBKEY_BYTES:
        raise Unreadable(QuarantineReason.TRUNCATED_EVENT)
    return b58encode(key).decode()


def _amount(fill: bytes, at: int) -> int:
    if len(fill) <= IS_BUY_AT:
        raise Unreadable(QuarantineReason.TRUNCATED_EVENT)
    return int.from_bytes(fill[at : at + 8], "little")
