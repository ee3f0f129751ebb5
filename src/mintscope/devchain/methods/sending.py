"""JSON-RPC: blockhashes and fees, and transactions before they land."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Final

import msgspec
from solders.hash import Hash
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from mintscope.devchain.methods.account_json import show
from mintscope.devchain.methods.params import (
    TRANSACTION_TEXT_MAX,
    AccountConfig,
    Config,
    OnlyConfig,
    Positional,
    SendConfig,
    SimulateConfig,
    SimulatedAccounts,
    method,
)
from mintscope.devchain.methods.raw import read_message, read_transaction
from mintscope.devchain.methods.rpc import INVALID_PARAMS, Answer, RpcError
from mintscope.devchain.methods.view import Json, View
from mintscope.devchain.svm.bank import Error, Outcome
from mintscope.devchain.svm.entry import inner_instructions, return_data
from mintscope.devchain.svm.fee import base_fee, priority_fee
from mintscope.devchain.svm.vm import Busy, Vm

SIMULATION_FAILED: Final = -32002
SIGNATURE_WRONG: Final = -32003
NODE_BEHIND: Final = -32005
FEE_ACCOUNTS_MAX: Final = 128
SLOTS_IN_EPOCH: Final = 432_000

_Text = Annotated[str, msgspec.Meta(max_length=TRANSACTION_TEXT_MAX)]


class _Blockhash(Positional, frozen=True):
    blockhash: Hash
    config: Config | None = None


class _Message(Positional, frozen=True):
    message: _Text
    config: Config | None = None


class _Simulate(Positional, frozen=True):
    transaction: _Text
    config: SimulateConfig | None = None


class _Send(Positional, frozen=True):
    transaction: _Text
    config: SendConfig | None = None


class _Addresses(Positional, frozen=True):
    addresses: Annotated[list[Pubkey], msgspec.Meta(max_length=FEE_ACCOUNTS_MAX)] = msgspec.field(
        default_factory=list
    )


class SendMethods:
    """Answers calls about transactions to be."""

    def __init__(self, vm: Vm) -> None:
        self._vm = vm
        self.by_name: Mapping[str, Answer] = {
            "getBlockHeight": method(OnlyConfig, self._height),
            "getEpochInfo": method(OnlyConfig, self._epoch),
            "getSlot": method(OnlyConfig, self._slot),
            "getLatestBlockhash": method(OnlyConfig, self._latest),
            "isBlockhashValid": method(_Blockhash, self._is_valid),
            "getFeeForMessage": method(_Message, self._fee),
            "getRecentPrioritizationFees": method(_Addresses, self._priority_fees),
            "simulateTransaction": method(_Simulate, self._simulate),
            "sendTransaction": method(_Send, self._send),
        }

    def _height(self, params: OnlyConfig) -> int:
        return View(self._vm, params.config).block.height

    def _slot(self, params: OnlyConfig) -> int:
        return View(self._vm, params.config).block.slot

    def _epoch(self, params: OnlyConfig) -> Json:
        block = View(self._vm, params.config).block
        epoch, index = divmod(block.slot, SLOTS_IN_EPOCH)
        return {
            "absoluteSlot": block.slot,
            "blockHeight": block.height,
            "epoch": epoch,
            "slotIndex": index,
            "slotsInEpoch": SLOTS_IN_EPOCH,
            "transactionCount": None,
        }

    def _latest(self, params: OnlyConfig) -> Json:
        view = View(self._vm, params.config)
        return view.answer(self._blockhash(view))

    def _is_valid(self, params: _Blockhash) -> Json:
        view = View(self._vm, params.config)
        last = self._vm.last_valid_height(params.blockhash)
        return view.answer(last is not None and view.block.height <= last)

    def _fee(self, params: _Message) -> Json:
        message = read_message(params.message)
        view = View(self._vm, params.config)
        last = self._vm.last_valid_height(message.recent_blockhash)
        known = last is not None and view.block.height <= last
        return view.answer(base_fee(message) + priority_fee(message) if known else None)

    def _priority_fees(self, _: _Addresses) -> Sequence[Json]:
        return [{"slot": self._vm.block("processed").slot, "prioritizationFee": 0}]

    def _simulate(self, params: _Simulate) -> Json:
        config = params.config or SimulateConfig()
        transaction = read_transaction(params.transaction, config.encoding or "base58")
        if config.sig_verify and config.replace_recent_blockhash:
            raise RpcError(INVALID_PARAMS, "sigVerify may not be used with replaceRecentBlockhash")
        if config.sig_verify:
            _verify(transaction)
        view = View(self._vm, config)
        error: Error | None = None
        if not config.replace_recent_blockhash:
            error = self._vm.refusal(transaction)
        outcome = None if error is not None else self._vm.bank.simulate(transaction)
        shown = _simulated(error, outcome)
        if config.accounts is not None:
            shown["accounts"] = self._left(config.accounts, transaction, outcome)
        if config.inner_instructions and outcome is not None:
            shown["innerInstructions"] = inner_instructions(outcome)
        if config.replace_recent_blockhash:
            shown["replacementBlockhash"] = self._blockhash(view)
        return view.answer(shown)

    def _send(self, params: _Send) -> str:
        config = params.config or SendConfig()
        transaction = read_transaction(params.transaction, config.encoding or "base58")
        commitment = config.preflight_commitment
        View(self._vm, Config(commitment=commitment, min_context_slot=config.min_context_slot))
        if not config.skip_preflight:
            _verify(transaction)
            self._preflight(transaction)
        try:
            self._vm.send(transaction)
        except Busy:
            raise RpcError(NODE_BEHIND, "Node is behind: too many transactions wait") from None
        return str(transaction.signatures[0])

    def _preflight(self, transaction: VersionedTransaction) -> None:
        error: Error | None = self._vm.refusal(transaction)
        outcome = None if error is not None else self._vm.bank.simulate(transaction)
        shown = _simulated(error, outcome)
        if shown["err"] is not None:
            raise RpcError(
                SIMULATION_FAILED, f"Transaction simulation failed: {_words(shown['err'])}", shown
            )

    def _blockhash(self, view: View) -> Json:
        blockhash = view.block.blockhash
        return {
            "blockhash": str(blockhash),
            "lastValidBlockHeight": self._vm.last_valid_height(blockhash),
        }

    def _left(
        self, wanted: SimulatedAccounts, transaction: VersionedTransaction, outcome: Outcome | None
    ) -> list[Json | None]:
        """Return the *wanted* accounts as *transaction* leaves them; nothing if it fails."""
        most = len(transaction.message.account_keys)
        if len(wanted.addresses) > most:
            raise RpcError(INVALID_PARAMS, f"Too many accounts provided; max {most}")
        if outcome is None or outcome.error is not None:
            return [None for _ in wanted.addresses]
        config = AccountConfig(encoding=wanted.encoding or "base64")
        bank = self._vm.bank
        return [
            show(outcome.after.get(address, bank.account(address)), config, bank.account)
            for address in wanted.addresses
        ]


def _verify(transaction: VersionedTransaction) -> None:
    if not all(transaction.verify_with_results()):
        raise RpcError(SIGNATURE_WRONG, "Transaction signature verification failure")


def _simulated(error: Error | None, outcome: Outcome | None) -> Json:
    return {
        "err": error if outcome is None else outcome.error,
        "logs": [] if outcome is None else list(outcome.logs),
        "accounts": None,
        "unitsConsumed": 0 if outcome is None else outcome.units,
        "returnData": None if outcome is None else return_data(outcome),
        "innerInstructions": None,
    }


def _words(error: object) -> str:
    match error:
        case "BlockhashNotFound":
            return "Blockhash not found"
        case "AlreadyProcessed":
            return "This transaction has already been processed"
        case {"InstructionError": [int(place), {"Custom": int(code)}]}:
            return f"Error processing Instruction {place}: custom program error: {code:#x}"
        case {"InstructionError": [int(place), str(name)]}:
            return f"Error processing Instruction {place}: {name}"
        case _:
            return str(error)
