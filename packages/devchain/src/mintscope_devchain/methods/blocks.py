"""JSON-RPC methods about the blocks of a devchain with a market, and their errors.

Clients distinguish skipped slots from faults by the error codes.
"""

from collections.abc import Sequence
from typing import Final, Protocol

from mintscope.kit.primitives import Signature, UnixS
from mintscope_devchain.blockstore import Blockstore, ChainBlock, CommitmentLevel
from mintscope_devchain.methods.params import (
    INVALID_PARAMS,
    BlockOptions,
    ContextOptions,
    Natural,
    RpcError,
    confirmed,
    table,
    unsupported_version,
)
from mintscope_devchain.render import Named
from mintscope_devchain.svm.vm import Vm
from mintscope_devchain.transaction import Json

BLOCK_CLEANED_UP: Final = -32001
BLOCK_NOT_AVAILABLE: Final = -32004
SLOT_SKIPPED: Final = -32007
LONG_TERM_SLOT_SKIPPED: Final = -32009
RANGE_MAX: Final = 500_000

SAMPLE_S: Final = 60
SAMPLES_MAX: Final = 720

_Slot = Natural


# Devchain is the only implementation. Its module imports the methods, so without this protocol both
# modules would import each other.
class Chain(Protocol):
    """The devchain, as the JSON-RPC methods about blocks use it."""

    genesis_hash: str
    blockstore: Blockstore
    opened_slot: int
    vm: Vm

    def entries(self, block: ChainBlock) -> Sequence[Json]:
        """Return the transactions of *block* as the RPC method getBlock returns them."""
        ...

    def entry(self, block: ChainBlock, at: int) -> Json:
        """Return the transaction at index *at* of *block* as the RPC method getBlock returns it."""
        ...

    def named(self, block: ChainBlock) -> Sequence[Named]:
        """Return the market transactions of *block* as `Named`, which can test for accounts."""
        ...

    def signatures(self, block: ChainBlock) -> Sequence[Signature]:
        """Return the signatures of the transactions of *block*."""
        ...


class BlockMethods:
    """JSON-RPC methods about the blocks of a devchain."""

    def __init__(self, chain: Chain) -> None:
        self._chain = chain
        self._blockstore = chain.blockstore
        self.by_name = table(
            {
                "getBlock": self._block,
                "getBlockTime": self._time,
                "getBlocks": self._blocks,
                "getBlocksWithLimit": self._blocks_with_limit,
                "getFirstAvailableBlock": lambda: chain.blockstore.first,
                "getGenesisHash": lambda: chain.genesis_hash,
                "getRecentPerformanceSamples": self._samples,
                "minimumLedgerSlot": lambda: chain.blockstore.first,
            }
        )

    def _samples(self, limit: Natural | None = None) -> Sequence[Json]:
        """Answer getRecentPerformanceSamples, with samples of at least SAMPLE_S seconds each."""
        count = min(SAMPLES_MAX if limit is None else limit, SAMPLES_MAX)
        newest = self._blockstore.last
        samples = list[Json]()
        while len(samples) < count:
            oldest = self._blockstore.before(UnixS(newest.time - SAMPLE_S))
            if oldest is None:
                break
            slots = newest.slot - oldest.slot
            samples.append(
                {
                    "slot": newest.slot,
                    "numSlots": slots,
                    "numTransactions": slots,
                    "numNonVoteTransactions": slots,
                    "samplePeriodSecs": newest.time - oldest.time,
                }
            )
            newest = oldest
        return samples

    def _time(self, slot: _Slot) -> int:
        return self._find(slot, "confirmed").time

    def _blocks(
        self,
        first: _Slot,
        last: _Slot | ContextOptions | None = None,
        options: ContextOptions | None = None,
    ) -> Sequence[int]:
        if isinstance(last, ContextOptions):
            last, options = None, last
        last = first + RANGE_MAX if last is None else last
        if last - first > RANGE_MAX:
            raise RpcError(INVALID_PARAMS, f"Slot range too large; max {RANGE_MAX}")
        return self._blockstore.between(first, min(last, self._reached(options)))

    def _blocks_with_limit(
        self, first: _Slot, limit: _Slot, options: ContextOptions | None = None
    ) -> Sequence[int]:
        if limit > RANGE_MAX:
            raise RpcError(INVALID_PARAMS, f"Limit too large; max {RANGE_MAX}")
        return self._blockstore.between(first, self._reached(options))[:limit]

    def _reached(self, options: ContextOptions | None) -> int:
        return self._blockstore.reached(confirmed(options.commitment if options else None))

    def _block(self, slot: _Slot, options: BlockOptions | str | None = None) -> Json:
        if isinstance(options, str):  # the older form of the parameter: only the encoding
            options = BlockOptions(encoding=options)
        options = options or BlockOptions()
        commitment = confirmed(options.commitment)
        details = options.transaction_details
        _expect("this node encodes `json`", options.encoding, {"json"})
        said = "transactionDetails is `full`, `signatures` or `none` here"
        _expect(said, details, {"full", "signatures", "none"})
        block = self._find(slot, commitment)
        shown = head(block)
        if details == "full":
            shown["transactions"] = self._entries(block, options.max_supported_transaction_version)
        elif details == "signatures":
            shown["signatures"] = self._chain.signatures(block)
        return shown | {"rewards": []} if options.rewards else shown

    def _entries(self, block: ChainBlock, version_max: int | None) -> Sequence[Json]:
        entries = self._chain.entries(block)
        if version_max is not None:
            return entries
        if any(entry["version"] != "legacy" for entry in entries):
            raise unsupported_version()
        return [{key: entry[key] for key in ("transaction", "meta")} for entry in entries]

    def _find(self, slot: int, commitment: CommitmentLevel) -> ChainBlock:
        blockstore = self._blockstore
        if slot > blockstore.reached(commitment):
            raise RpcError(BLOCK_NOT_AVAILABLE, f"Block not available for slot {slot}")
        if slot < blockstore.first:
            raise RpcError(
                BLOCK_CLEANED_UP,
                f"Block {slot} cleaned up, does not exist on node. First available block:"
                f" {blockstore.first}",
            )
        block = blockstore.block(slot)
        if block is not None:
            return block
        code = SLOT_SKIPPED
        why = "missing due to ledger jump to recent snapshot"
        if slot < self._chain.opened_slot:
            code = LONG_TERM_SLOT_SKIPPED
            why = "missing in long-term storage"
        raise RpcError(code, f"Slot {slot} was skipped, or {why}")


def head(block: ChainBlock) -> Json:
    """Return the result of the RPC method getBlock without transactions and rewards."""
    return {
        "blockHeight": block.height,
        "blockTime": block.time,
        "blockhash": block.blockhash,
        "parentSlot": block.parent_slot,
        "previousBlockhash": block.parent_blockhash,
    }


def _expect(said: str, given: str, known: set[str]) -> None:
    if given not in known:
        raise RpcError(INVALID_PARAMS, f"Invalid params: {said}, was {given!r:.40}")
