"""Who owns which token account in one transaction, and of which mint.

The balances know every account that outlives the transaction.  A temporary
one (wrapped SOL, opened and closed on the way) is known from the instruction
that initialised it, and failing that from what it trades with.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

import msgspec
from based58 import b58encode

from mintscope.dex import base58
from mintscope.dex.entry import AMOUNTS, Entry, Instruction, Meta
from mintscope.dex.outcome import Reason, Unreadable
from mintscope.errors import InvalidTokenAddress
from mintscope.primitives import PUBKEY_BYTES, Mint, Signature, parse_mint
from mintscope.solana import WSOL

TOKEN: Final = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA"
TOKEN_2022: Final = "TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb"
ASSOCIATED_TOKEN: Final = "ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL"
SYSTEM: Final = "11111111111111111111111111111111"

INITIALIZE_ACCOUNTS: Final = 3  # account, mint, owner; later variants carry the owner as data

# Every index on the wire is a byte, so no index can pass the end of this.
BEYOND: Final = [""] * 256


class Ledger:
    """The accounts of one transaction.

    keys      static, then loaded writable, then loaded readonly; "" beyond the last
    signers   the fee payer first
    """

    __slots__ = (
        "_book",
        "_entry",
        "_opened",
        "_raw",
        "decimals",
        "index",
        "keys",
        "signature",
        "signers",
    )

    def __init__(self, raw: bytes | msgspec.Raw, index: int, entry: Entry, meta: Meta) -> None:
        message = entry.transaction.message
        self.index = index
        self.signature = Signature(entry.transaction.signatures[0])
        header = message.header
        keys = message.account_keys
        self.signers = keys[: header.num_required_signatures] if header else keys[:1]
        if loaded := meta.loaded_addresses:
            keys = keys + loaded.writable + loaded.readonly
        self.keys = keys + BEYOND
        self.decimals: dict[str, int] = {WSOL: 9}
        self._raw = raw
        self._entry = entry
        self._opened: dict[int, tuple[str, str]] | None = None
        self._book = {b.account_index: b for b in meta.pre_token_balances or ()}
        for balance in meta.post_token_balances or ():
            self._book[balance.account_index] = balance

    def key(self, account: int) -> str:
        """Return the address of *account*."""
        key = self.keys[account]
        if not key:
            raise Unreadable(Reason.UNKNOWN_ACCOUNT)
        return key

    def holder(self, account: int) -> tuple[str, str]:
        """Return (owner, mint) of *account*: itself where no owner, "" where no mint is known."""
        balance = self._book.get(account)
        if balance is None:
            if self._opened is None:
                self._opened = dict(self._openings())
            return self._opened.get(account) or (self.key(account), "")
        self.decimals[balance.mint] = balance.ui_token_amount.decimals
        return balance.owner or self.key(account), balance.mint

    def decimals_of(self, mint: str) -> int | None:
        """Return the decimals of *mint*, None where nothing in the transaction tells."""
        known = self.decimals.get(mint)
        if known is not None:
            return known
        for balance in self._book.values():
            if balance.mint == mint:
                return balance.ui_token_amount.decimals
        return None

    def arrived(self, account: int, named: int) -> int:
        """Return what *account* gained by the one transfer it took part in.

        The balances decide; *named*, the amount less the fee that the transfer
        names, where they cannot: other instructions touched the account too.
        """
        touched = sum(account in i.accounts for i in self._instructions() if self._is_token(i))
        if touched != 1:
            return named
        balances = AMOUNTS.decode(self._raw).meta
        before, after = (
            next((b.ui_token_amount.amount for b in side or () if b.account_index == account), 0)
            for side in (balances.pre_token_balances, balances.post_token_balances)
        )
        return after - before if after > before else named

    def _is_token(self, instruction: Instruction) -> bool:
        return self.keys[instruction.program_id_index] in {TOKEN, TOKEN_2022}

    def _instructions(self) -> Iterator[Instruction]:
        yield from self._entry.transaction.message.instructions
        meta = self._entry.meta
        for inner in (meta and meta.inner_instructions) or ():
            yield from inner.instructions

    def _openings(self) -> Iterator[tuple[int, tuple[str, str]]]:
        """Yield account, owner and mint of every account that this transaction opened."""
        for instruction in self._instructions():
            if not self._is_token(instruction):
                continue
            data, accounts = base58.decode(instruction.data), instruction.accounts
            match data[:1]:
                case b"\x01" if len(accounts) >= INITIALIZE_ACCOUNTS:
                    yield accounts[0], (self.key(accounts[2]), self.key(accounts[1]))
                case b"\x10" | b"\x12" if len(accounts) > 1 and len(data) > PUBKEY_BYTES:
                    owner = b58encode(data[1 : 1 + PUBKEY_BYTES]).decode()
                    yield accounts[0], (owner, self.key(accounts[1]))
                case _:
                    pass


@lru_cache(maxsize=65_536)
def address(mint: str) -> Mint:
    """Return *mint* as a Mint; the same few thousand come again and again.

    Raises Unreadable for anything but the base58 form of 32 bytes.
    """
    try:
        return parse_mint(mint)
    except InvalidTokenAddress:
        raise Unreadable(Reason.UNRESOLVED_MINT) from None
