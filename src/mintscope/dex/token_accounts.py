"""Owners and mints of the token accounts in one transaction.

The balances show every account that exists after the transaction, and so every vault.  A temporary
account, for example for wrapped SOL, is known from the instruction that initialised it, or else
from the other side of its transfers.  Temporary accounts are looked up only if needed.
"""

from collections import Counter, defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final, overload

from based58 import b58encode
from typing_extensions import override

from mintscope.dex import base58, batch
from mintscope.dex.batch import Opened
from mintscope.dex.outcome import QuarantineReason, Unreadable
from mintscope.kit.errors import InvalidTokenAddress
from mintscope.kit.primitives import PUBKEY_BYTES, Mint, Signature, parse_mint
from mintscope.solana.blocks import USDC, USDT, WSOL
from mintscope.solana.transaction import Effects, Instruction, TokenBalance, Transaction

SPL: Final = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA"
SPL_2022: Final = "TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb"
ASSOCIATED: Final = "ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL"
SPL_PROGRAMS: Final[frozenset[str | bytes]] = frozenset(
    {SPL, SPL_2022, base58.decode(SPL), base58.decode(SPL_2022)}
)
SYSTEM: Final = "11111111111111111111111111111111"
SYSTEM_PROGRAM: Final[frozenset[str | bytes]] = frozenset({SYSTEM, base58.decode(SYSTEM)})
MOVING_PROGRAMS: Final = SPL_PROGRAMS | SYSTEM_PROGRAM
DECIMALS: Final[dict[str, int]] = {WSOL: 9, USDC: 6, USDT: 6}

NAMED_MINTS_MAX: Final = 8
DIGITS_MAX: Final = 19  # a number of up to 19 digits always fits a u64

# The byte 01, also in base58.  The accounts of the instruction: token account, mint, owner.
INITIALIZE_ACCOUNT: Final = frozenset({"2", b"\x01"})
INITIALIZE_ACCOUNTS: Final = 3
INITIALIZE_ACCOUNT_OF: Final = frozenset({b"\x10", b"\x12"})  # the owner is in the data
CHECKED_DECIMALS_AT: Final = {b"\x0c": 9, b"\x1a": 10}  # TransferChecked, TransferCheckedWithFee


class Texts(Sequence[str]):
    """Addresses given as bytes, each converted to base58 on access."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        self._keys = keys

    @override
    def __len__(self) -> int:
        return len(self._keys)

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[str]: ...
    @override
    def __getitem__(self, at: int | slice) -> str | Sequence[str]:
        keys = self._keys[at]
        return _encode(keys) if isinstance(keys, bytes) else [_encode(key) for key in keys]


_account: Final = attrgetter("account_index")
_called: Final = attrgetter("index", "instructions")


class TokenAccounts:
    """The token accounts of one transaction.

    keys          the address of each account
    signers       the addresses of the signers, the fee payer first
    inner         by the position of each top-level instruction, the inner instructions that it
                  caused
    is_complete   whether `complete` was called
    opened        by the `id` of each instruction that is a batch, the instructions in it
    fees          by index of the receiving account, the fees withheld from transfers (`moves`)
    wrapped       by index of the account, its wrapped SOL before each unwrapping (`moves`)
    new_owner     whether an account may have got another owner or mint (`moves`); None until it is
                  looked up
    book          the token accounts, by index: those that exist after the transaction, and, once
                  `complete` was called, also those that the transaction closed
    """

    __slots__ = (
        "_before",
        "_moving",
        "_parsed_effects",
        "_tokens",
        "_touches",
        "_transaction",
        "book",
        "fees",
        "index",
        "inner",
        "is_complete",
        "keys",
        "new_owner",
        "opened",
        "signature",
        "signers",
        "wrapped",
    )

    def __init__(self, transaction: Transaction) -> None:
        keys: Any = transaction.keys  # all text, or all bytes
        self.keys: Sequence[str] = keys if isinstance(keys[0], str) else Texts(keys)
        self._transaction = transaction
        self.is_complete = False
        self._tokens: Sequence[Instruction] | None = None
        self._moving: Sequence[Instruction] | None = None
        self._touches: Counter[int] | None = None
        self.fees: dict[int, dict[int, int]] = {}
        self.wrapped: dict[int, dict[int, int]] = {}
        self.new_owner: bool | None = None
        self._before: Sequence[TokenBalance] | None = None
        self._parsed_effects: Effects | None = None
        self.opened: Opened = {}
        self.index = transaction.index
        self.inner: dict[int, Sequence[Instruction]] = dict(map(_called, transaction.inner or ()))
        signature = transaction.signature
        self.signature = signature if isinstance(signature, str) else signature_of(transaction)
        # The first key paid the fee, whatever the header says.
        self.signers = self.keys[: transaction.signer_count or 1]
        balances = transaction.balances
        # Unlike a comprehension, `map` runs no bytecode for each balance.
        self.book: dict[int, TokenBalance] = dict(
            zip(map(_account, balances), balances, strict=True)
        )

    def key(self, account: int) -> str:
        """Return the address of the account with the index *account*.

        Raises Unreadable if there is no such account.
        """
        try:
            return self.keys[account]
        except IndexError:
            raise Unreadable(QuarantineReason.UNKNOWN_ACCOUNT) from None

    def mints_of(self, accounts: Sequence[int]) -> tuple[Mint, ...]:
        """Return the different mints of the token accounts in *accounts*, NAMED_MINTS_MAX at most.

        The result is empty if one of these mints is not a valid address.
        """
        balances = filter(None, map(self.book.get, accounts))
        mints = list(dict.fromkeys(balance.mint for balance in balances))[:NAMED_MINTS_MAX]
        try:
            return tuple(map(address, mints))
        except Unreadable:
            return ()

    def owner(self, account: int) -> str:
        """Return the owner of the token account *account*; the account's address if unknown."""
        balance = self.book.get(account)
        return (balance and balance.owner) or self.key(account)

    def mint(self, account: int) -> str | None:
        """Return the mint of the token account *account*; None if unknown."""
        balance = self.book.get(account)
        return None if balance is None else balance.mint

    def decimals(self, mint: str) -> int | None:
        """Return the decimals of *mint*; None if the transaction does not show them."""
        known = DECIMALS.get(mint)
        if known is not None:
            return known
        for balance in self.book.values():
            if balance.mint == mint and balance.ui_token_amount is not None:
                return balance.ui_token_amount.decimals
        return self._checked_decimals(mint)

    def held(self, mint: str, vault: TokenBalance | None) -> tuple[int | None, int | None]:
        """Return the decimals of *mint* and the raw units in *vault*; None for an unknown value."""
        balance = None if vault is None else vault.ui_token_amount
        if vault is None or balance is None:
            return self.decimals(mint), None
        decimals = DECIMALS.get(mint)
        if decimals is None:
            decimals = balance.decimals if vault.mint == mint else self.decimals(mint)
        text = balance.amount
        is_number = len(text) <= DIGITS_MAX and text.isascii() and text.isdigit()
        return decimals, int(text) if is_number else None

    def complete(self) -> None:
        """Add to `book` the token accounts that the transaction closed.

        Raises Unreadable if the balances before the transaction, or the instructions that open
        accounts, are malformed.
        """
        if self.is_complete:
            return
        self.is_complete = True
        # `setdefault`, because a balance after the transaction takes precedence.
        for balance in self._earlier():
            self.book.setdefault(balance.account_index, balance)
        for balance in self._openings():
            self.book.setdefault(balance.account_index, balance)

    def before(self, account: int) -> int | None:
        """Return the raw units in *account* before the transaction; None if not recorded."""
        for balance in self._earlier():
            if balance.account_index == account:
                return _amount(balance)
        return None

    def after(self, account: int) -> int | None:
        """Return the raw units in *account* after the transaction; None if not recorded."""
        # Not from `book`: once complete, it also has balances from before the transaction.
        for balance in self._transaction.balances:
            if balance.account_index == account:
                return _amount(balance)
        return None

    def shown(self, accounts: Container[int]) -> Mapping[int, Sequence[TokenBalance]]:
        """Return the balances of *accounts* before and after the transaction, by account.

        An account that exists neither before nor after has none.
        """
        found: defaultdict[int, list[TokenBalance]] = defaultdict(list)
        for balance in (*self._earlier(), *self._transaction.balances):
            if balance.account_index in accounts:
                found[balance.account_index].append(balance)
        return found

    def lamports(self, account: int) -> tuple[int, int] | None:
        """Return the lamports of *account* before and after; None if they were not recorded."""
        effects = self._effects()
        if account >= min(len(effects.pre_balances), len(effects.post_balances)):
            return None
        return effects.pre_balances[account], effects.post_balances[account]

    def log(self) -> Sequence[str]:
        """Return the lines of the transaction's log; empty if the log was not recorded."""
        return self._effects().log_messages or ()

    def _effects(self) -> Effects:
        if self._parsed_effects is None:
            try:
                self._parsed_effects = self._transaction.read_effects()
            except ValueError:
                raise Unreadable(QuarantineReason.MALFORMED) from None
        return self._parsed_effects

    def instructions(self, program_id_index: int) -> Sequence[Instruction]:
        """Return every instruction of the program with this index, in order of execution."""
        return self._run({program_id_index})

    def system_instructions(self) -> Sequence[Instruction]:
        """Return every instruction of the system program, at any depth, in order of execution."""
        return self._run(self._indices(SYSTEM_PROGRAM))

    def vaults_of(
        self, owners: Container[str], one: str, other: str
    ) -> tuple[TokenBalance, TokenBalance] | None:
        """Return the two token accounts of *owners*: for the mint *one*, and for the mint *other*.

        Return None if an account is missing, or if `book` has further accounts of *owners*.
        """
        first = second = None
        for balance in self.book.values():
            if balance.owner in owners:
                mint = balance.mint
                if mint == one and first is None:
                    first = balance
                elif mint == other and second is None:
                    second = balance
                else:
                    return None
        return None if first is None or second is None else (first, second)

    def is_of(self, instruction: Instruction, program: str) -> bool:
        """Return whether *instruction* is an instruction of *program*."""
        return self.key(instruction.program_id_index) == program

    def _earlier(self) -> Sequence[TokenBalance]:
        if self._before is None:
            try:
                self._before = self._transaction.read_earlier()
            except ValueError:
                raise Unreadable(QuarantineReason.MALFORMED) from None
        return self._before

    def _checked_decimals(self, mint: str) -> int | None:
        """Return the decimals of *mint* in an instruction such as TransferChecked.

        Return None if no instruction names them.
        """
        for token in self.token_instructions():
            if len(token.accounts) > 1 and self.key(token.accounts[1]) == mint:
                data = base58.decode(token.data)
                at = CHECKED_DECIMALS_AT.get(data[:1], len(data))
                if at < len(data):
                    return data[at]
        return None

    def token_instructions(self) -> Sequence[Instruction]:
        """Return every instruction of the token programs, at any depth, in order of execution.

        Batches are expanded, except malformed ones.
        """
        if self._tokens is None:
            self._tokens = batch.expand_readable(
                self._run(self._indices(SPL_PROGRAMS)), self.opened
            )
        return self._tokens

    def moving_instructions(self) -> Sequence[Instruction]:
        """Return the transaction's instructions of the token and system programs, in order."""
        if self._moving is None:
            self._moving = batch.expand_readable(
                self._run(self._indices(MOVING_PROGRAMS)), self.opened
            )
        return self._moving

    def touches(self) -> Counter[int]:
        """Return the number of token program instructions that use each account, by its index."""
        if self._touches is None:
            self._touches = Counter(
                account for token in self.token_instructions() for account in set(token.accounts)
            )
        return self._touches

    def _indices(self, programs: Container[str | bytes]) -> set[int]:
        return {i for i, key in enumerate(self._transaction.keys) if key in programs}

    def _run(self, wanted: Container[int]) -> list[Instruction]:
        """Return every instruction of programs in *wanted*, at any depth, in order of execution."""
        found: list[Instruction] = []
        for position, instruction in enumerate(self._transaction.instructions):
            if instruction.program_id_index in wanted:
                found.append(instruction)
            if position in self.inner:
                called = self.inner[position]
                found += [one for one in called if one.program_id_index in wanted]
        return found

    def _openings(self) -> Iterator[TokenBalance]:
        """Yield each token account that the transaction initialised and that `book` lacks."""
        for instruction in self.token_instructions():
            accounts = instruction.accounts
            if not accounts or accounts[0] in self.book:
                continue  # most instructions are transfers of known accounts
            opened = self.opened_by(instruction)
            if opened is not None:
                yield opened

    def opened_by(self, instruction: Instruction) -> TokenBalance | None:
        """Return the token account that *instruction* initialises, without a balance.

        Return None if *instruction* of a token program initialises none, or has unknown data.
        """
        accounts = instruction.accounts
        data = instruction.data
        if data in INITIALIZE_ACCOUNT and len(accounts) >= INITIALIZE_ACCOUNTS:
            owner = self.key(accounts[2])
        # A cheap test: data with a key are longer, as bytes and as base58 text.
        elif len(data) > PUBKEY_BYTES and len(accounts) > 1:
            data = base58.decode(data)
            if data[:1] not in INITIALIZE_ACCOUNT_OF or len(data) <= PUBKEY_BYTES:
                return None
            owner = _encode(data[1 : 1 + PUBKEY_BYTES])
        else:
            return None
        return TokenBalance(accounts[0], self.key(accounts[1]), owner=owner)


def signature_of(transaction: Transaction) -> Signature:
    """Return the signature of *transaction* in base58."""
    signature = transaction.signature
    return Signature(b58encode(signature).decode()) if isinstance(signature, bytes) else signature


@lru_cache(maxsize=16_384)
def _encode(key: bytes) -> str:
    return b58encode(key).decode()


def _amount(balance: TokenBalance) -> int:
    text = "" if balance.ui_token_amount is None else balance.ui_token_amount.amount
    if not (text.isascii() and text.isdigit()):
        raise Unreadable(QuarantineReason.MALFORMED)
    return int(text)


@lru_cache(maxsize=65_536)
def address(mint: str) -> Mint:
    """Return *mint* as a Mint; results are cached, because the same few thousand mints recur.

    Raises Unreadable if *mint* is not the base58 form of 32 bytes.
    """
    try:
        return parse_mint(mint)
    except InvalidTokenAddress:
        raise Unreadable(QuarantineReason.UNRESOLVED_MINT) from None
