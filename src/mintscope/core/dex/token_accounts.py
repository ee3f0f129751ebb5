"""Who owns which token account in one transaction, and of which mint.

The balances know every account that outlives the transaction, and so every
vault.  A temporary one (wrapped SOL, opened and closed on the way) is known
from the instruction that initialised it, and failing that from what it trades
with.  Those are looked up only by readings that need them.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

import msgspec
from based58 import b58encode

from mintscope.base.errors import InvalidTokenAddress
from mintscope.base.primitives import PUBKEY_BYTES, Mint, parse_mint
from mintscope.base.solana import USDC, USDT, WSOL
from mintscope.core.dex import base58
from mintscope.core.dex.entry import (
    AMOUNTS,
    BALANCES,
    UNPARSABLE,
    Entry,
    Instruction,
    Meta,
    TokenBalance,
)
from mintscope.core.dex.outcome import QuarantineReason, Unreadable

SPL: Final = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA"
SPL_2022: Final = "TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb"
ASSOCIATED: Final = "ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL"
SPL_PROGRAMS: Final = frozenset({SPL, SPL_2022})
SYSTEM: Final = "11111111111111111111111111111111"
DECIMALS: Final[dict[str, int]] = {WSOL: 9, USDC: 6, USDT: 6}

INITIALIZE_ACCOUNT: Final = "2"  # byte 1 in base58: accounts are account, mint, owner
INITIALIZE_ACCOUNTS: Final = 3
INITIALIZE_ACCOUNT_OF: Final = frozenset({b"\x10", b"\x12"})  # the owner is in the data instead
INITIALIZE_TEXT_MIN: Final = 44  # no 33 bytes that start so are shorter in base58
CHECKED_DECIMALS_AT: Final = {b"\x0c": 9, b"\x1a": 10}  # TransferChecked, and WithFee


class TokenAccounts:
    """The accounts of one transaction.

    keys      static, then loaded writable, then loaded readonly
    signers   the fee payer first
    inner     what each top-level instruction called, by its position
    book      token accounts by index: those alive at the end, and all once `complete`d
    """

    __slots__ = (
        "_entry",
        "_is_complete",
        "_meta",
        "_raw",
        "book",
        "index",
        "inner",
        "keys",
        "signature",
        "signers",
    )

    def __init__(
        self, raw: bytes | msgspec.Raw, index: int, entry: Entry, meta: Meta, keys: list[str]
    ) -> None:
        transaction = entry.transaction
        message = transaction.message
        required = 1 if message.header is None else message.header.num_required_signatures
        self._raw = raw
        self._entry = entry
        self._meta = meta
        self._is_complete = False
        self.index = index
        self.keys = keys
        self.inner = {x.index: x.instructions for x in meta.inner_instructions or ()}
        self.signature = transaction.signatures[0]
        self.signers = keys[: max(required, 1)]  # somebody paid the fee, whatever it says
        self.book = {b.account_index: b for b in meta.post_token_balances or ()}

    def key(self, account: int) -> str:
        """Return the address of *account*."""
        if account >= len(self.keys):
            raise Unreadable(QuarantineReason.UNKNOWN_ACCOUNT)
        return self.keys[account]

    def decimals(self, mint: str) -> int | None:
        """Return the decimals of *mint*, None where nothing in the transaction tells."""
        known = DECIMALS.get(mint)
        if known is not None:
            return known
        for balance in self.book.values():
            if balance.mint == mint and balance.ui_token_amount is not None:
                return balance.ui_token_amount.decimals
        return self._checked_decimals(mint)

    def complete(self) -> None:
        """Enter the accounts that the transaction closed, and those it opened and closed."""
        if self._is_complete:
            return
        self._is_complete = True
        try:
            before = BALANCES.decode(self._meta.pre_token_balances)
        except UNPARSABLE:
            raise Unreadable(QuarantineReason.MALFORMED) from None
        for balance in before or ():
            self.book.setdefault(balance.account_index, balance)
        for balance in self._openings():
            self.book.setdefault(balance.account_index, balance)

    def arrived(self, account: int, named: int) -> int:
        """Return what *account* gained by the one transfer it took part in.

        The balances decide; *named*, the amount less the fee that the transfer
        names, where they cannot: other instructions touched the account too.
        """
        touched = sum(account in token.accounts for token in self._token_instructions())
        if touched != 1:
            return named
        try:
            balances = AMOUNTS.decode(self._raw).meta
        except UNPARSABLE:
            raise Unreadable(QuarantineReason.MALFORMED) from None
        before, after = (
            next((b.ui_token_amount.amount for b in side or () if b.account_index == account), 0)
            for side in (balances.pre_token_balances, balances.post_token_balances)
        )
        return after - before if after > before else named

    def _checked_decimals(self, mint: str) -> int | None:
        """Return the decimals that a checked transfer of *mint* names, if there is one."""
        for token in self._token_instructions():
            if len(token.accounts) > 1 and self.key(token.accounts[1]) == mint:
                data = base58.decode(token.data)
                at = CHECKED_DECIMALS_AT.get(data[:1], len(data))
                if at < len(data):
                    return data[at]
        return None

    def _token_instructions(self) -> Iterator[Instruction]:
        """Yield every instruction of the token programs, at any depth."""
        tokens = {i for i, key in enumerate(self.keys) if key in SPL_PROGRAMS}
        for instruction in self._entry.transaction.message.instructions:
            if instruction.program_id_index in tokens:
                yield instruction
        for called in self.inner.values():
            for instruction in called:
                if instruction.program_id_index in tokens:
                    yield instruction

    def _openings(self) -> Iterator[TokenBalance]:
        """Yield every token account that the transaction initialised."""
        for instruction in self._token_instructions():
            text, accounts = instruction.data, instruction.accounts
            if text == INITIALIZE_ACCOUNT and len(accounts) >= INITIALIZE_ACCOUNTS:
                owner = self.key(accounts[2])
            elif len(text) >= INITIALIZE_TEXT_MIN and len(accounts) > 1:
                data = base58.decode(text)
                if data[:1] not in INITIALIZE_ACCOUNT_OF or len(data) <= PUBKEY_BYTES:
                    continue
                owner = b58encode(data[1 : 1 + PUBKEY_BYTES]).decode()
            else:
                continue
            yield TokenBalance(accounts[0], self.key(accounts[1]), owner=owner)


@lru_cache(maxsize=65_536)
def address(mint: str) -> Mint:
    """Return *mint* as a Mint; the same few thousand come again and again.

    Raises Unreadable for anything but the base58 form of 32 bytes.
    """
    try:
        return parse_mint(mint)
    except InvalidTokenAddress:
        raise Unreadable(QuarantineReason.UNRESOLVED_MINT) from None
