"""Answers of a node to the requests of payments, as far as payments care."""

from typing import Annotated, Any, Final

import msgspec

from mintscope.base.primitives import Mint

ATOMS_MAX: Final = 2**63 - 1  # more cannot be stored, and no token of any worth has as many

Number = Annotated[int, msgspec.Meta(ge=0, le=2**53)]  # of slots and blocks
Lamports = Annotated[int, msgspec.Meta(ge=0, le=ATOMS_MAX)]
SignatureText = Annotated[str, msgspec.Meta(min_length=1, max_length=88)]


class Status(msgspec.Struct, frozen=True, rename="camel"):
    """How sure the cluster is of a transaction; *err* is None where it succeeded."""

    err: Any
    confirmation_status: str | None = None

    @property
    def is_confirmed(self) -> bool:
        """Whether two thirds of the stake have voted for its block."""
        return self.confirmation_status in {"confirmed", "finalized"}

    @property
    def is_final(self) -> bool:
        """Whether no fork can take it back."""
        return self.confirmation_status == "finalized"


class EpochInfo(msgspec.Struct, frozen=True, rename="camel"):
    """How far the chain has come, at one commitment."""

    absolute_slot: Number
    block_height: Number


class PerformanceSample(msgspec.Struct, frozen=True, rename="camel"):
    """How many slots the chain had in so many seconds."""

    num_slots: Number
    sample_period_secs: Number


class _AnswerContext(msgspec.Struct, frozen=True):
    slot: Number


class Statuses(msgspec.Struct, frozen=True):
    """Statuses of some signatures at a node that had come to the slot of *context*."""

    context: _AnswerContext
    value: list[Status | None]


class _TokenAmount(msgspec.Struct, frozen=True):
    amount: str


class AccountTokenBalance(msgspec.Struct, frozen=True, rename="camel"):
    """The balance of a token account before or after a transaction."""

    account_index: int
    mint: str
    ui_token_amount: _TokenAmount


class _Loaded(msgspec.Struct, frozen=True):
    writable: list[str] = []
    readonly: list[str] = []


class _TransactionMeta(msgspec.Struct, frozen=True, rename="camel"):
    err: Any
    pre_token_balances: list[AccountTokenBalance] = []
    post_token_balances: list[AccountTokenBalance] = []
    loaded_addresses: _Loaded = _Loaded()


class _Message(msgspec.Struct, frozen=True, rename="camel"):
    account_keys: list[str]


class _SignedMessage(msgspec.Struct, frozen=True):
    message: _Message


class ConfirmedTransaction(msgspec.Struct, frozen=True):
    """A transaction in a block, as far as payments care."""

    transaction: _SignedMessage
    meta: _TransactionMeta


class RecordedTransaction(msgspec.Struct, frozen=True):
    """A transaction in a block, as it was sent: in base64, and the name of that."""

    transaction: tuple[str, str]


class _Simulated(msgspec.Struct, frozen=True):
    class Value(msgspec.Struct, frozen=True):
        """The node's status of the transaction."""

        class Account(msgspec.Struct, frozen=True):
            """An account as the transaction would leave it."""

            data: tuple[str, str]

        err: str | dict[str, Any] | None
        accounts: list[Account | None] | None = None

    context: _AnswerContext
    value: Value


class Arrival(msgspec.Struct, frozen=True):
    """A transaction that touched an address."""

    signature: SignatureText
    err: Any


class _Account(msgspec.Struct, frozen=True):
    owner: str
    data: tuple[str, str]


class _AccountInfo(msgspec.Struct, frozen=True):
    value: _Account | None


class _Balance(msgspec.Struct, frozen=True):
    value: Lamports


class LatestBlockhash(msgspec.Struct, frozen=True):
    """The newest blockhash at a commitment, as of the slot of *context*."""

    class Value(msgspec.Struct, frozen=True, rename="camel"):
        """The blockhash; a node may leave out how long it is good."""

        blockhash: Annotated[str, msgspec.Meta(max_length=44)]
        last_valid_block_height: Number | None = None

    context: _AnswerContext
    value: Value


class _Error(msgspec.Struct, frozen=True):
    code: int
    message: str = ""


class _Answer(msgspec.Struct, frozen=True):
    result: msgspec.Raw = msgspec.Raw(b"null")
    error: _Error | None = None


ANSWER: Final = msgspec.json.Decoder(_Answer)
NUMBER: Final = msgspec.json.Decoder(Number)
TEXT: Final = msgspec.json.Decoder(str)
TIP: Final = msgspec.json.Decoder(EpochInfo)
SAMPLES: Final = msgspec.json.Decoder(list[PerformanceSample])
STATUSES: Final = msgspec.json.Decoder(Statuses)
TRANSACTION: Final = msgspec.json.Decoder(ConfirmedTransaction | None)
WIRE: Final = msgspec.json.Decoder(RecordedTransaction | None)
SIMULATED: Final = msgspec.json.Decoder(_Simulated)
ARRIVALS: Final = msgspec.json.Decoder(list[Arrival])
ACCOUNT: Final = msgspec.json.Decoder(_AccountInfo)
BLOCKHASH: Final = msgspec.json.Decoder(LatestBlockhash)
BALANCE: Final = msgspec.json.Decoder(_Balance)


def received(found: ConfirmedTransaction, *, asset: Mint, treasury: str) -> int:
    """Return by how much the balance of *treasury* grew, in atoms of *asset*.

    Raises    ValueError for invalid amounts
    """
    loaded = found.meta.loaded_addresses
    keys = [*found.transaction.message.account_keys, *loaded.writable, *loaded.readonly]

    def balance(entries: list[AccountTokenBalance]) -> int:
        return sum(
            _atoms(entry)
            for entry in entries
            if entry.mint == asset
            and keys[entry.account_index : entry.account_index + 1] == [treasury]
        )

    paid = balance(found.meta.post_token_balances) - balance(found.meta.pre_token_balances)
    if abs(paid) > ATOMS_MAX:
        raise ValueError(f"expected {ATOMS_MAX} atoms at most; was {paid}")
    return paid


def _atoms(entry: AccountTokenBalance) -> int:
    text = entry.ui_token_amount.amount
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(ATOMS_MAX))):
        raise ValueError(f"expected an amount of atoms; was {text[:40]!r}")
    atoms = int(text)
    if atoms > ATOMS_MAX:
        raise ValueError(f"expected {ATOMS_MAX} atoms at most; was {text}")
    return atoms
