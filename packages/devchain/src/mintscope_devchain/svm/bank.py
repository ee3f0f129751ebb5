"""Stores the accounts after the newest block, and runs transactions on them.

The real virtual machine (LiteSVM) does the work.  This module adds what LiteSVM lacks: priority
fees, and undoing of transactions.  BlockhashQueue checks blockhashes, and the caller checks
signatures.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import msgspec
from solders.account import Account
from solders.instruction import CompiledInstruction
from solders.litesvm import LiteSVM
from solders.pubkey import Pubkey
from solders.system_program import ID as SYSTEM
from solders.token import ID as TOKEN
from solders.transaction import VersionedTransaction
from solders.transaction_metadata import (
    FailedTransactionMetadata,
    InnerInstruction,
    TransactionMetadata,
)

from mintscope_devchain.svm.message import Keys, base_fee, priority_fee, resolve
from mintscope_devchain.svm.tokens import read_holding

TransactionError = str | dict[str, object]

NOTHING: Final = Account(0, b"", SYSTEM)
ACCOUNTS_MAX: Final = 64
LOG_BYTES_MAX: Final = 10_000
INSUFFICIENT_FUNDS: Final = 1


class Inner(NamedTuple):
    """An instruction that a program invoked, and the depth of the invocation."""

    instruction: CompiledInstruction
    stack_height: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """The effect of a transaction, executed or simulated.

    before   the accounts that it can write, before it ran
    after    the same accounts after it ran
    fee      its fee in lamports
    landed   whether it becomes part of a block: it succeeded, or failed and paid its fee
    inner    the inner instructions, one list for each instruction
    units    the compute units that it used
    returned   the last program that returned data, and the data; None: no program returned any
    """

    keys: Keys
    before: Mapping[Pubkey, Account | None]
    after: Mapping[Pubkey, Account | None]
    fee: int
    landed: bool = False
    error: TransactionError | None = None
    logs: Sequence[str] = ()
    inner: Sequence[Sequence[Inner]] = ()
    units: int = 0
    returned: tuple[Pubkey, bytes] | None = None


class Bank:
    """Stores the accounts after the newest block, and runs transactions on them.

    token_accounts   all addresses that have ever been token accounts, even if only in a simulation;
                     LiteSVM cannot list them
    """

    def __init__(self) -> None:
        self.token_accounts: dict[Pubkey, None] = {}
        self._svm = (
            LiteSVM()
            .with_sigverify(sigverify=False)
            .with_blockhash_check(check=False)
            # Without a history, LiteSVM runs a transaction again: after a simulation or a fork.
            .with_transaction_history(0)
            .with_log_bytes_limit(LOG_BYTES_MAX)
        )

    def account(self, address: Pubkey) -> Account | None:
        """Return the account at *address*; an account without lamports does not exist."""
        account = self._svm.get_account(address)
        return account if account is not None and account.lamports else None

    def put(self, address: Pubkey, account: Account | None) -> None:
        """Store *account* at *address* without any checks; None: delete the account there."""
        self._svm.set_account(address, NOTHING if account is None else account)
        self._note({address: account})

    def rent_exempt(self, data_bytes: int) -> int:
        """Return the least lamports that an account of *data_bytes* must hold."""
        return self._svm.minimum_balance_for_rent_exemption(data_bytes)

    def tell_time(self, *, slot: int, time_s: int) -> None:
        """Set the sysvar Clock, which programs read, to *slot* and *time_s*, Unix seconds."""
        clock = self._svm.get_clock()
        clock.slot = slot
        clock.unix_timestamp = time_s
        self._svm.set_clock(clock)

    def simulate(self, transaction: VersionedTransaction) -> Execution:
        """Return the outcome of *transaction* on the present accounts, without changing them."""
        outcome = self.execute(transaction)
        self.undo(outcome)
        return outcome

    def execute(self, transaction: VersionedTransaction) -> Execution:
        """Run *transaction*, and return the result; if the transaction lands, store its effects."""
        case = self._open(transaction)
        if case.error is not None:
            return case
        payer = case.keys.static[0]
        # Before the run, as on the chain: the transaction cannot spend its own fee.
        self._take(payer, priority_fee(transaction.message))
        taken = self.account(payer)
        result = self._svm.send_transaction(transaction)
        if isinstance(result, TransactionMetadata):
            return replace(_reported(case, result), landed=True, after=self._now(case))
        failed = replace(_reported(case, result.meta()), error=_error(result))
        if self.account(payer) == taken:  # no fee was paid, so no block contains the transaction
            self.put(payer, case.before[payer])
            return failed
        return replace(failed, landed=True, after=self._now(case))

    def fail(self, transaction: VersionedTransaction) -> Execution:
        """Take the fee of *transaction*, but fail it with the error "insufficient funds"."""
        case = self._open(transaction)
        if case.error is not None:
            return case
        self._take(case.keys.static[0], case.fee)
        place, program = _transfer(transaction)
        return replace(
            case,
            landed=True,
            error={"InstructionError": [place, {"Custom": INSUFFICIENT_FUNDS}]},
            after=self._now(case),
            logs=[
                f"Program {program} invoke [1]",
                "Program log: TransactionError: insufficient funds",
                f"Program {program} failed: custom program error: {INSUFFICIENT_FUNDS:#x}",
            ],
        )

    def undo(self, outcome: Execution) -> None:
        """Undo the effects of *outcome*; several outcomes must be undone newest first."""
        for address, account in outcome.before.items():
            if account != outcome.after[address]:
                self.put(address, account)

    def _open(self, transaction: VersionedTransaction) -> Execution:
        """Return the accounts before *transaction*, its fee, and an error if it cannot run."""
        message = transaction.message
        keys = resolve(message, self.account)
        before = {address: self.account(address) for address in keys.writable}
        fee = base_fee(message) + priority_fee(message)
        payer = before[keys.static[0]]
        error = None
        if len(keys.all) > ACCOUNTS_MAX:
            error = "TooManyAccountLocks"
        elif len(set(keys.all)) < len(keys.all):
            error = "AccountLoadedTwice"
        elif payer is None:
            error = "AccountNotFound"
        elif payer.lamports < fee:
            error = "InsufficientFundsForFee"
        return Execution(keys=keys, before=before, after=before, fee=fee, error=error)

    def _now(self, case: Execution) -> dict[Pubkey, Account | None]:
        now = {address: self.account(address) for address in case.before}
        self._note(now)
        return now

    def _note(self, accounts: Mapping[Pubkey, Account | None]) -> None:
        found = (address for address, account in accounts.items() if read_holding(account))
        self.token_accounts.update(dict.fromkeys(found))

    def _take(self, payer: Pubkey, lamports: int) -> None:
        account = self.account(payer)
        assert account is not None
        self.put(payer, Account(account.lamports - lamports, account.data, account.owner))


class _Failed(msgspec.Struct):
    err: TransactionError


class _ReturnData(msgspec.Struct):
    program_id: list[int]
    data: list[int]


class _ReturningMeta(msgspec.Struct):
    return_data: _ReturnData


class _Height(msgspec.Struct, rename="camel"):
    stack_height: int


def _error(result: FailedTransactionMetadata) -> TransactionError:
    return msgspec.json.decode(result.to_json(), type=_Failed).err


def _reported(case: Execution, meta: TransactionMetadata) -> Execution:
    """Return *case* with the logs, inner instructions, units and returned data in *meta*."""
    returned = msgspec.json.decode(meta.to_json(), type=_ReturningMeta).return_data
    return replace(
        case,
        logs=meta.logs(),
        inner=[[_inner(call) for call in calls] for calls in meta.inner_instructions()],
        units=meta.compute_units_consumed(),
        returned=(
            (Pubkey(bytes(returned.program_id)), bytes(returned.data)) if returned.data else None
        ),
    )


def _inner(call: InnerInstruction) -> Inner:
    height = msgspec.json.decode(call.to_json(), type=_Height).stack_height
    return Inner(call.instruction(), height)


def _transfer(transaction: VersionedTransaction) -> tuple[int, Pubkey]:
    """Return the index and the program of the first SPL Token instruction.

    Without one, return those of the last instruction; without any instruction, return 0 and the
    System program.
    """
    message = transaction.message
    programs = [message.account_keys[call.program_id_index] for call in message.instructions]
    place = programs.index(TOKEN) if TOKEN in programs else max(len(programs) - 1, 0)
    return place, programs[place] if programs else SYSTEM
