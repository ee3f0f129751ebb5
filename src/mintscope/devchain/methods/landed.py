"""JSON-RPC: transactions that landed."""

from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, takewhile
from typing import Annotated, Final

import msgspec
from based58 import b58encode
from solders.pubkey import Pubkey
from solders.signature import Signature

from mintscope.devchain.methods.params import (
    SIGNATURES_MAX,
    Config,
    HistoryConfig,
    Positional,
    StatusConfig,
    TransactionConfig,
    method,
)
from mintscope.devchain.methods.rpc import INVALID_PARAMS, Answer, RpcError
from mintscope.devchain.methods.view import Json, View
from mintscope.devchain.svm.entry import memo
from mintscope.devchain.svm.vm import Landed, Vm

UNSUPPORTED_VERSION: Final = -32015
RECENT_BLOCKS: Final = 300


class _Signatures(Positional, frozen=True):
    signatures: Annotated[list[Signature], msgspec.Meta(max_length=SIGNATURES_MAX)]
    config: StatusConfig | None = None


class _Transaction(Positional, frozen=True):
    signature: Signature
    config: TransactionConfig | None = None


class _History(Positional, frozen=True):
    address: Pubkey
    config: HistoryConfig | None = None


class LandedMethods:
    """Answers calls about what became of transactions."""

    def __init__(self, vm: Vm) -> None:
        self._vm = vm
        self.by_name: Mapping[str, Answer] = {
            "getSignatureStatuses": method(_Signatures, self._statuses),
            "getTransaction": method(_Transaction, self._transaction),
            "getSignaturesForAddress": method(_History, self._history),
        }

    def _statuses(self, params: _Signatures) -> Json:
        view = View(self._vm, Config(commitment="processed"))
        blind = self._vm.faults.is_blind("getSignatureStatuses")
        far = params.config is not None and params.config.search_transaction_history
        found = [
            None if blind else self._status(view, self._vm.landed(str(signature)), far=far)
            for signature in params.signatures
        ]
        return view.answer(found)

    def _status(self, view: View, landed: Landed | None, *, far: bool) -> Json | None:
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

    def _transaction(self, params: _Transaction) -> Json | None:
        config = params.config or TransactionConfig()
        view = _voted(self._vm, config)
        landed = self._vm.landed(str(params.signature))
        if (
            landed is None
            or landed.block.slot > view.block.slot
            or self._vm.faults.is_blind("getTransaction")
        ):
            return None
        shown = {
            "slot": landed.block.slot,
            "blockTime": landed.block.at_ms // 1_000,
            **landed.entry,
        }
        old_client = config.max_supported_transaction_version is None
        if old_client and shown.pop("version") != "legacy":
            raise RpcError(
                UNSUPPORTED_VERSION,
                "Transaction version (0) is not supported by the requesting client. Please try the"
                " request again with the following configuration parameter:"
                ' "maxSupportedTransactionVersion": 0',
            )
        return shown | {"transaction": _encoded(landed, config)}

    def _history(self, params: _History) -> Sequence[Json]:
        config = params.config or HistoryConfig()
        view = _voted(self._vm, config)
        if self._vm.faults.is_blind("getSignaturesForAddress"):
            return []
        found = (
            landed
            for landed in _between(self._vm.history(), config)
            if landed.block.slot <= view.block.slot and params.address in landed.outcome.keys.all
        )
        return [self._line(landed) for landed in islice(found, config.limit)]

    def _line(self, landed: Landed) -> Json:
        return {
            "signature": landed.signature,
            "slot": landed.block.slot,
            "err": landed.outcome.error,
            "memo": memo(landed.transaction),
            "blockTime": landed.block.at_ms // 1_000,
            "confirmationStatus": self._vm.commitment(landed),
        }


def _voted(vm: Vm, config: Config) -> View:
    if config.commitment == "processed":
        raise RpcError(INVALID_PARAMS, "Method does not support commitment below `confirmed`")
    return View(vm, config)


def _between(history: Iterator[Landed], config: HistoryConfig) -> Iterator[Landed]:
    """Yield what is older than `before` and newer than `until`, where they are given."""
    if config.before is not None:
        before = str(config.before)
        for landed in history:
            if landed.signature == before:
                break
    until = None if config.until is None else str(config.until)
    return takewhile(lambda landed: landed.signature != until, history)


def _encoded(landed: Landed, config: TransactionConfig) -> object:
    raw = bytes(landed.transaction)
    match config.encoding:
        case "base64":
            return [b64encode(raw).decode(), "base64"]
        case "base58":
            return [b58encode(raw).decode(), "base58"]
        case "json" | None:
            return landed.entry["transaction"]
