"""A small builder of transactions, from the description of a test to the form of getBlock.

Texts name accounts: the address of a text that is not an address is its hash.  No code here comes
from the decoder, so neither can hide a mistake of the other.
"""

import hashlib
import json
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
SPL = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA"
SPL_2022 = "TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb"
SYSTEM = "11111111111111111111111111111111"
WSOL = "So11111111111111111111111111111111111111112"
USDC = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"
JUPITER = "JUP6LkbZbjS1jKKwapdHNy74zcZ3tLUZoi5QNyVTaV4"
SELF_CALL = bytes.fromhex("e445a52e51cb9a1d")
USER = "user"
PAIRS = [first + second for first in ALPHABET for second in ALPHABET]
# Cached, because the same addresses occur often, and each takes 22 long divisions.
REMEMBERED = 50_000


@lru_cache(REMEMBERED)
def b58(data: bytes) -> str:
    number, text = int.from_bytes(data, "big"), ""
    while number:
        number, digits = divmod(number, len(PAIRS))
        text = PAIRS[digits] + text
    return "1" * (len(data) - len(data.lstrip(b"\0"))) + text.lstrip(ALPHABET[0])


def unb58(text: str) -> bytes:
    number = 0
    for digit in text:
        number = number * 58 + ALPHABET.index(digit)
    zeros = len(text) - len(text.lstrip("1"))
    return bytes(zeros) + number.to_bytes((number.bit_length() + 7) // 8, "big")


@lru_cache(REMEMBERED)
def address(word: str) -> str:
    is_address = 32 <= len(word) <= 44 and set(word) <= set(ALPHABET)
    return word if is_address else b58(hashlib.sha256(word.encode()).digest())


def u64(*numbers: int) -> bytes:
    return b"".join(number.to_bytes(8, "little") for number in numbers)


@dataclass
class Ix:
    program: str
    accounts: list[str]
    data: bytes
    calls: list["Ix"] = field(default_factory=list)


def transfer(source: str, target: str, amount: int, *, program: str = SPL) -> Ix:
    return Ix(program, [source, target, "authority"], b"\x03" + u64(amount))


def checked(  # noqa: PLR0913
    source: str, mint: str, target: str, amount: int, decimals: int = 6, *, program: str = SPL
) -> Ix:
    data = b"\x0c" + u64(amount) + bytes([decimals])
    return Ix(program, [source, mint, target, "authority"], data)


def with_fee(source: str, mint: str, target: str, amount: int, fee: int) -> Ix:
    data = b"\x1a\x01" + u64(amount) + b"\x06" + u64(fee)
    return Ix(SPL_2022, [source, mint, target, "authority"], data)


def batch(*calls: Ix, program: str = SPL) -> Ix:
    """Return one instruction that contains *calls* of a token program, with their inner calls."""
    data = b"".join(bytes([len(ix.accounts), len(ix.data)]) + ix.data for ix in calls)
    accounts = [account for ix in calls for account in ix.accounts]
    return Ix(program, accounts, b"\xff" + data, [below for ix in calls for below in ix.calls])


def hooked(moved: Ix, *calls: Ix, hook: str = "hook program") -> Ix:
    """Return the Token-2022 transfer *moved* with a transfer hook, *hook*, which makes *calls*."""
    # The discriminator of `Execute` in spl-transfer-hook-interface
    execute = bytes.fromhex("692565c54bfb661a") + moved.data[1:9]
    below = Ix(hook, [*moved.accounts, "extra metas"], execute, list(calls))
    return Ix(SPL_2022, [*moved.accounts, "extra metas", hook], moved.data, [below])


def lamports(source: str, target: str, amount: int) -> Ix:
    return Ix(SYSTEM, [source, target], b"\x02\0\0\0" + u64(amount))


def event(program: str, data: bytes) -> Ix:
    return Ix(program, ["event authority"], data)


class Tx:
    """A transaction under construction.

    has_heights   False: calls do not show their caller, as in data from before 2023
    loaded        the names of accounts that come from lookup tables
    """

    def __init__(
        self,
        *calls: Ix,
        signers: tuple[str, ...] = (USER,),
        has_heights: bool = True,
        loaded: tuple[str, ...] = (),
    ) -> None:
        self.calls = list(calls)
        self.signers = signers
        self.has_heights = has_heights
        self.loaded = loaded
        self.words: dict[str, int] = {}
        self.balances: dict[str, tuple[str, str | None, int, int, int]] = {}
        self.lamports: dict[str, tuple[int, int]] = {}
        self.log: list[str] | None = None

    def holds(  # noqa: PLR0913
        self,
        account: str,
        mint: str,
        owner: str | None,
        decimals: int = 6,
        *,
        before: int = 0,
        after: int = 0,
    ) -> "Tx":
        """Add the token balances of *account* before and after the transaction; return the `Tx`."""
        self.balances[account] = (mint, owner, decimals, before, after)
        return self

    def with_lamports(self, account: str, before: int, after: int) -> "Tx":
        """Set the lamports of *account* before and after the transaction; return the `Tx`.

        Accounts whose lamports are not set have none.
        """
        self.lamports[account] = (before, after)
        return self

    def entry(self) -> dict[str, Any]:
        """Return the transaction as an entry of getBlock, in the encoding `json`."""
        static = [*self.signers]
        for word in self._mentioned():
            if word not in static and word not in self.loaded:
                static.append(word)
        self.words = {word: i for i, word in enumerate((*static, *self.loaded))}
        inner = [
            {"index": i, "instructions": self._flat(ix.calls, 2)}
            for i, ix in enumerate(self.calls)
            if ix.calls
        ]
        return {
            "transaction": {
                "message": {
                    "accountKeys": [address(word) for word in static],
                    "header": {
                        "numReadonlySignedAccounts": 0,
                        "numReadonlyUnsignedAccounts": 0,
                        "numRequiredSignatures": len(self.signers),
                    },
                    "instructions": [self._json(ix, None) for ix in self.calls],
                    "recentBlockhash": address("blockhash"),
                },
                "signatures": [b58(hashlib.sha512(b"signature").digest())],
            },
            "meta": {
                "err": None,
                "fee": 5000,
                "innerInstructions": inner,
                "loadedAddresses": {
                    "writable": [],
                    "readonly": [address(word) for word in self.loaded],
                },
                "logMessages": self.log,
                "preBalances": [self.lamports.get(word, (0, 0))[0] for word in self.words],
                "postBalances": [self.lamports.get(word, (0, 0))[1] for word in self.words],
                "preTokenBalances": self._balances(3),
                "postTokenBalances": self._balances(4),
            },
            "version": 0,
        }

    def raw(self) -> bytes:
        return json.dumps(self.entry(), separators=(",", ":")).encode()

    def _mentioned(self) -> list[str]:
        words: list[str] = []

        def walk(ix: Ix) -> None:
            words.extend((*ix.accounts, ix.program))
            for call in ix.calls:
                walk(call)

        for ix in self.calls:
            walk(ix)
        return words

    def _flat(self, calls: list[Ix], height: int) -> list[dict[str, Any]]:
        flat = []
        for ix in calls:
            flat.append(self._json(ix, height))
            flat += self._flat(ix.calls, height + 1)
        return flat

    def _json(self, ix: Ix, height: int | None) -> dict[str, Any]:
        line: dict[str, Any] = {
            "accounts": [self.words[word] for word in ix.accounts],
            "data": b58(ix.data),
            "programIdIndex": self.words[ix.program],
        }
        return line | {"stackHeight": height} if self.has_heights else line

    def _balances(self, at: int) -> list[dict[str, Any]]:
        return [
            {
                "accountIndex": self.words[account],
                "mint": address(held[0]),
                "owner": None if held[1] is None else address(held[1]),
                "programId": SPL,
                "uiTokenAmount": {"amount": str(held[at]), "decimals": held[2]},
            }
            for account, held in self.balances.items()
            if account in self.words
        ]
