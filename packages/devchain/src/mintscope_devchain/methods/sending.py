"""JSON-RPC methods for clients that send transactions: blockhashes, fees, simulation, sending."""

import binascii
from base64 import b64decode
from collections.abc import Sequence
from hashlib import sha256
from typing import Annotated, Final, Literal

import msgspec
from based58 import b58decode
from solders.hash import Hash
from solders.message import from_bytes_versioned
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.transaction import SanitizeError, VersionedTransaction

from mintscope_devchain.methods.accounts import show
from mintscope_devchain.methods.params import (
    INVALID_PARAMS,
    AccountOptions,
    ContextOptions,
    RpcError,
    SendOptions,
    SimulatedAccounts,
    SimulateOptions,
    table,
)
from mintscope_devchain.methods.view import View
from mintscope_devchain.svm.bank import Execution, TransactionError
from mintscope_devchain.svm.entry import inner_instructions, return_data
from mintscope_devchain.svm.message import AnyMessage, base_fee, priority_fee
from mintscope_devchain.svm.vm import Busy, Vm
from mintscope_devchain.transaction import Json

SIMULATION_FAILED: Final = -32002
SIGNATURE_WRONG: Final = -32003
NODE_BEHIND: Final = -32005
FEE_ACCOUNTS_MAX: Final = 128
SLOTS_IN_EPOCH: Final = 432_000
ALPENGLOW_SLOT: Final = 1
SIGNATURE_PARTS: Final = 6  # parts of 32 bytes: an aggregate BLS signature has 192 bytes
TRANSACTION_BYTES_MAX: Final = 1_232
TRANSACTION_TEXT_MAX: Final = 1_700  # characters; 1,232 bytes in base64 are 1,644

_Text = Annotated[str, msgspec.Meta(max_length=TRANSACTION_TEXT_MAX)]
_Addresses = Annotated[tuple[Pubkey, ...], msgspec.Meta(max_length=FEE_ACCOUNTS_MAX)]
_Encoding = Literal["base58", "base64"]


class SendMethods:
    """JSON-RPC methods for sending: slots, blockhashes, fees, simulation and sendTransaction."""

    def __init__(self, vm: Vm) -> None:
        self._vm = vm
        self.by_name = table(
            {
                "getAgGenesisCert": self._alpenglow,
                "getBlockHeight": self._height,
                "getEpochInfo": self._epoch,
                "getSlot": self._slot,
                "getLatestBlockhash": self._latest,
                "isBlockhashValid": self._is_valid,
                "getFeeForMessage": self._fee,
                "getRecentPrioritizationFees": self._priority_fees,
                "simulateTransaction": self._simulate,
                "sendTransaction": self._send,
            }
        )

    def _height(self, options: ContextOptions | None = None) -> int:
        return View(self._vm, options).block.height

    def _slot(self, options: ContextOptions | None = None) -> int:
        return View(self._vm, options).block.slot

    def _epoch(self, options: ContextOptions | None = None) -> Json:
        block = View(self._vm, options).block
        epoch, index = divmod(block.slot, SLOTS_IN_EPOCH)
        return {
            "absoluteSlot": block.slot,
            "blockHeight": block.height,
            "epoch": epoch,
            "slotIndex": index,
            "slotsInEpoch": SLOTS_IN_EPOCH,
            "transactionCount": None,
        }

    def _alpenglow(self) -> Json | None:
        """Return the genesis certificate of Alpenglow; None on a chain without Alpenglow."""
        if not self._vm.pace.is_alpenglow:
            return None
        name = list(sha256(b"devchain %d" % self._vm.genesis.seed).digest())
        return {
            "block": {"slot": ALPENGLOW_SLOT, "blockId": name},
            "signature": {"signature": name * SIGNATURE_PARTS, "bitmap": [1]},
        }

    def _latest(self, options: ContextOptions | None = None) -> Json:
        view = View(self._vm, options)
        return view.answer(self._blockhash(view))

    def _is_valid(self, blockhash: Hash, options: ContextOptions | None = None) -> Json:
        view = View(self._vm, options)
        last = self._vm.last_valid_height(blockhash)
        return view.answer(last is not None and view.block.height <= last)

    def _fee(self, text: _Text, options: ContextOptions | None = None) -> Json:
        message = _read_message(text)
        view = View(self._vm, options)
        last = self._vm.last_valid_height(message.recent_blockhash)
        known = last is not None and view.block.height <= last
        return view.answer(base_fee(message) + priority_fee(message) if known else None)

    def _priority_fees(self, _: _Addresses = ()) -> Sequence[Json]:
        return [{"slot": self._vm.block("processed").slot, "prioritizationFee": 0}]

    def _simulate(self, text: _Text, options: SimulateOptions | None = None) -> Json:
        options = options or SimulateOptions()
        transaction = _read_transaction(text, options.encoding)
        if options.sig_verify and options.replace_recent_blockhash:
            raise RpcError(INVALID_PARAMS, "sigVerify may not be used with replaceRecentBlockhash")
        if options.sig_verify:
            _verify(transaction)
        view = View(self._vm, options)
        error: TransactionError | None = None
        if not options.replace_recent_blockhash:
            error = self._vm.refusal(transaction, after=view.block)
        outcome = None if error is not None else self._vm.bank.simulate(transaction)
        shown = _simulated(error, outcome)
        if options.accounts is not None:
            shown["accounts"] = self._left(options.accounts, transaction, outcome)
        if options.inner_instructions and outcome is not None:
            shown["innerInstructions"] = inner_instructions(outcome)
        if options.replace_recent_blockhash:
            shown["replacementBlockhash"] = self._blockhash(view)
        return view.answer(shown)

    def _send(self, text: _Text, options: SendOptions | None = None) -> str:
        options = options or SendOptions()
        transaction = _read_transaction(text, options.encoding)
        level = options.preflight_commitment
        slot = options.min_context_slot
        # Only for its check of `minContextSlot`
        View(self._vm, ContextOptions(commitment=level, min_context_slot=slot))
        if not options.skip_preflight:
            _verify(transaction)
            self._preflight(transaction)
        return send(self._vm, transaction)

    def _preflight(self, transaction: VersionedTransaction) -> None:
        error: TransactionError | None = self._vm.refusal(transaction)
        outcome = None if error is not None else self._vm.bank.simulate(transaction)
        shown = _simulated(error, outcome)
        if shown["err"] is not None:
            message = f"Transaction simulation failed: {_words(shown['err'])}"
            raise RpcError(SIMULATION_FAILED, message, shown)

    def _blockhash(self, view: View) -> Json:
        blockhash = view.block.blockhash
        last = self._vm.last_valid_height(blockhash)
        return {"blockhash": str(blockhash), "lastValidBlockHeight": last}

    def _left(
        self,
        wanted: SimulatedAccounts,
        transaction: VersionedTransaction,
        outcome: Execution | None,
    ) -> list[Json | None]:
        """Return the accounts that a simulation is to show, as they are after *transaction*.

        All are None if *transaction* fails.  Raises RpcError if more accounts are wanted than
        *transaction* has static keys.
        """
        most = len(transaction.message.account_keys)
        if len(wanted.addresses) > most:
            raise RpcError(INVALID_PARAMS, f"Too many accounts provided; max {most}")
        if outcome is None or outcome.error is not None:
            return [None for _ in wanted.addresses]
        options = AccountOptions(encoding=wanted.encoding)
        bank = self._vm.bank
        return [
            show(outcome.after.get(address, bank.account(address)), options, bank.account)
            for address in wanted.addresses
        ]


def send(vm: Vm, transaction: VersionedTransaction) -> str:
    """Give *transaction* to the chain, and return its signature without waiting for a block.

    Raises RpcError if too many transactions are pending.
    """
    try:
        vm.send(transaction)
    except Busy:
        raise RpcError(NODE_BEHIND, "Node is behind: too many transactions wait") from None
    return str(transaction.signatures[0])


def _verify(transaction: VersionedTransaction) -> None:
    if not all(transaction.verify_with_results()):
        raise RpcError(SIGNATURE_WRONG, "Transaction signature verification failure")


def _simulated(error: TransactionError | None, outcome: Execution | None) -> Json:
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


def _read_transaction(text: str, encoding: _Encoding) -> VersionedTransaction:
    """Return the transaction in *text*; check its indexes and counts, not its signatures.

    Raises RpcError if *text* is not a valid transaction.
    """
    data = _read(text, encoding)
    most = TRANSACTION_BYTES_MAX
    if len(data) > most:
        raise _refused(f"decoded transaction too large: {len(data)} bytes (max: {most} bytes)")
    try:
        transaction = VersionedTransaction.from_bytes(data)
        transaction.sanitize()
    except (ValueError, SanitizeError) as error:
        raise _refused(f"invalid transaction: {error}") from None
    if bytes(transaction) != data:
        raise _refused("invalid transaction: bytes remain after its end")
    return transaction


def _read_message(text: str) -> AnyMessage:
    """Decode *text*, a transaction message in base64, and check its indexes and counts.

    Raises RpcError if *text* is not a valid message.
    """
    try:
        message = from_bytes_versioned(_read(text, "base64"))
        unsigned = [Signature.default()] * message.header.num_required_signatures
        VersionedTransaction.populate(message, unsigned).sanitize()  # a `Message` has no `sanitize`
    except (ValueError, SanitizeError) as error:
        raise _refused(f"invalid message: {error}") from None
    return message


def _read(text: str, encoding: _Encoding) -> bytes:
    try:
        if encoding == "base58":
            return bytes(b58decode(text.encode()))
        return b64decode(text.encode(), validate=True)
    except (ValueError, binascii.Error) as error:
        raise _refused(f"invalid {encoding} encoding: {error}") from None


def _refused(message: str) -> RpcError:
    return RpcError(INVALID_PARAMS, f"Invalid params: {message}")
