"""JSON-RPC: transactions that landed."""

from base64 import b64encode
from collections.abc import Iterator, Sequence
from itertools import islice, takewhile
from typing import Annotated, Final

import msgspec
from based58 import b58encode
from solders.pubkey import Pubkey
from solders.signature import Signature

from mintscope.devchain.methods.params import (
    ContextOptions,
    HistoryOptions,
    StatusOptions,
    TransactionOptions,
    confirmed,
    table,
    unsupported_version,
)
from mintscope.devchain.methods.view import View
from mintscope.devchain.svm.entry import memo
from mintscope.devchain.svm.vm import LandedTransaction, Vm
from mintscope.devchain.transaction import Json

SIGNATURES_MAX: Final = 256
RECENT_BLOCKS: Final = 300


class LandedMethods:
    """Answers calls about what became of transactions."""

    def __init__(self, vm: Vm) -> None:
        self._vm = vm
        self.by_name = table(
            {
                "getSignatureStatuses": self._statuses,
                "getTransaction": self._transaction,
                "getSignaturesForAddress": self._history,
            }
        )

    def _statuses(
        self,
        signatures: Annotated[list[Signature], msgspec.Meta(max_length=SIGNATURES_MAX)],
        options: StatusOptions | None = None,
    ) -> Json:
        view = View(self._vm, ContextOptions(commitment="processed"))
        blind = self._vm.faults.is_blind("getSignatureStatuses")
        far = options is not None and options.search_transaction_history
        found = [
            None if blind else self._status(view, self._vm.landed(str(signature)), far=far)
            for signature in signatures
        ]
        return view.answer(found)

    def _status(self, view: View, landed: LandedTransaction | None, *, far: bool) -> Json | None:
        if landed is None:
            return None
        depth = view.block.height - landed.block.height
        if depth >= RECENT_BLOCKS and not far:
            return None
        commitment = self._vm.commitment(landed)
        error = landed.outcome.error
        return {
            "slot": landed.block.slot,
            "confirmations": None if commitment == "finalized" else depth,
            "err": error,
            "status": {"Ok": None} if error is None else {"Err": error},
            "confirmationStatus": commitment,
        }

    def _transaction(
        self, signature: Signature, options: TransactionOptions | None = None
    ) -> Json | None:
        options = options or TransactionOptions()
        view = self._voted(options)
        landed = self._vm.landed(str(signature))
        is_later = landed is not None and landed.block.slot > view.block.slot
        if landed is None or is_later or self._vm.faults.is_blind("getTransaction"):
            return None
        at = {"slot": landed.block.slot, "blockTime": landed.block.at_ms // 1_000}
        shown = {**at, **landed.entry}
        old_client = options.max_supported_transaction_version is None
        if old_client and shown.pop("version") != "legacy":
            raise unsupported_version()
        return shown | {"transaction": _encoded(landed, options)}

    def _history(self, address: Pubkey, options: HistoryOptions | None = None) -> Sequence[Json]:
        options = options or HistoryOptions()
        view = self._voted(options)
        if self._vm.faults.is_blind("getSignaturesForAddress"):
            return []
        found = (
            landed
            for landed in _between(self._vm.history(), options)
            if landed.block.slot <= view.block.slot and address in landed.outcome.keys.all
        )
        return [self._line(landed) for landed in islice(found, options.limit)]

    def _line(self, landed: LandedTransaction) -> Json:
        return {
            "signature": landed.signature,
            "slot": landed.block.slot,
            "err": landed.outcome.error,
            "memo": memo(landed.transaction),
            "blockTime": landed.block.at_ms // 1_000,
            "confirmationStatus": self._vm.commitment(landed),
        }

    def _voted(self, options: ContextOptions) -> View:
        confirmed(options.commitment)
        return View(self._vm, options)


def _between(
    history: Iterator[LandedTransaction], options: HistoryOptions
) -> Iterator[LandedTransaction]:
    """Yield what is older than `before` and newer than `until`, where they are given."""
    if options.before is not None:
        before = str(options.before)
        for landed in history:
            if landed.signature == before:
                break
    until = None if options.until is None else str(options.until)
    return takewhile(lambda landed: landed.signature != until, history)


def _encoded(landed: LandedTransaction, options: TransactionOptions) -> object:
    raw = bytes(landed.transaction)
    match options.encoding:
        case "base64":
            return [b64encode(raw).decode(), "base64"]
        case "base58":
            return [b58encode(raw).decode(), "base58"]
        case "json" | None:
            return landed.entry["transaction"]
