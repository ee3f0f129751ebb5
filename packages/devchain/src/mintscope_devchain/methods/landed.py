"""JSON-RPC methods about the transactions in blocks, such as getTransaction."""

from base64 import b64encode
from collections.abc import Iterator, Sequence
from itertools import islice, takewhile
from typing import Annotated, Final

import msgspec
from based58 import b58encode
from solders.pubkey import Pubkey
from solders.signature import Signature

from mintscope_devchain.methods.params import (
    INVALID_PARAMS,
    ContextOptions,
    HistoryOptions,
    RpcError,
    StatusOptions,
    TransactionOptions,
    confirmed,
    table,
    unsupported_version,
)
from mintscope_devchain.methods.past import ChainPast, Done, done
from mintscope_devchain.methods.view import View
from mintscope_devchain.svm.vm import LandedTransaction, Vm
from mintscope_devchain.transaction import Json

SIGNATURES_MAX: Final = 256
RECENT_BLOCKS: Final = 300


class LandedMethods:
    """JSON-RPC methods about transactions in blocks, including those of the simulated market."""

    def __init__(self, vm: Vm, past: ChainPast | None = None) -> None:
        self._vm = vm
        self._past = past
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
        commitment = self._vm.commitment(landed.block.slot)
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
        if self._vm.faults.is_blind("getTransaction") or is_later:
            return None
        if landed is None:
            return self._of_market(str(signature), view, options)
        at = {"slot": landed.block.slot, "blockTime": landed.block.at_ms // 1_000}
        shown = {**at, **landed.entry}
        _expect_readable(shown, options)
        return shown | {"transaction": _encoded(landed, options)}

    def _of_market(self, signature: str, view: View, options: TransactionOptions) -> Json | None:
        found = None if self._past is None else self._past.entry(signature)
        if found is None or found[0].slot > view.block.slot:
            return None
        if options.encoding not in {None, "json"}:
            raise RpcError(INVALID_PARAMS, "Invalid params: the market is encoded as `json` alone")
        block, entry = found
        shown: Json = {"slot": block.slot, "blockTime": block.time, **entry}
        _expect_readable(shown, options)
        return shown

    def _history(self, address: Pubkey, options: HistoryOptions | None = None) -> Sequence[Json]:
        options = options or HistoryOptions()
        view = self._voted(options)
        if self._vm.faults.is_blind("getSignaturesForAddress"):
            return []
        every = map(done, self._vm.history()) if self._past is None else self._past.newest_first()
        asked = str(address)
        found = (
            one
            for one in _between(every, options)
            if one.slot <= view.block.slot and one.names(asked)
        )
        return [self._line(one) for one in islice(found, options.limit)]

    def _line(self, one: Done) -> Json:
        return {
            "signature": one.signature,
            "slot": one.slot,
            "err": one.error,
            "memo": one.memo,
            "blockTime": one.time,
            "confirmationStatus": self._vm.commitment(one.slot),
        }

    def _voted(self, options: ContextOptions) -> View:
        confirmed(options.commitment)
        return View(self._vm, options)


def _between(history: Iterator[Done], options: HistoryOptions) -> Iterator[Done]:
    """Yield the transactions older than `before` and newer than `until`, if these are set."""
    if options.before is not None:
        before = str(options.before)
        # Consumes *history* up to the transaction `before`; `takewhile` goes on from there.
        for one in history:
            if one.signature == before:
                break
    until = None if options.until is None else str(options.until)
    return takewhile(lambda one: one.signature != until, history)


def _expect_readable(shown: Json, options: TransactionOptions) -> None:
    """Remove the version from *shown*, a transaction, for a client that accepts no versions.

    Raises RpcError if the transaction has a version.
    """
    old_client = options.max_supported_transaction_version is None
    if old_client and shown.pop("version") != "legacy":
        raise unsupported_version()


def _encoded(landed: LandedTransaction, options: TransactionOptions) -> object:
    raw = bytes(landed.transaction)
    match options.encoding:
        case "base64":
            return [b64encode(raw).decode(), "base64"]
        case "base58":
            return [b58encode(raw).decode(), "base58"]
        case "json" | None:
            return landed.entry["transaction"]
