"""The JSON-RPC methods a reader of blocks needs, with the answers and refusals of a real node.

Codes    those of the Solana RPC; clients tell skipped slots from faults by them
Default  commitment is `finalized`, as everywhere
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol, TypeVar

import msgspec

from mintscope.base.primitives import Signature
from mintscope.devchain.blockstore import Block, Blockstore, Commitment
from mintscope.devchain.render import Json
from mintscope.devchain.svm.vm import Vm

INVALID_PARAMS: Final = -32602
METHOD_NOT_FOUND: Final = -32601
INVALID_REQUEST: Final = -32600
PARSE_ERROR: Final = -32700
BLOCK_CLEANED_UP: Final = -32001
BLOCK_NOT_AVAILABLE: Final = -32004
SLOT_SKIPPED: Final = -32007
LONG_TERM_SLOT_SKIPPED: Final = -32009
UNSUPPORTED_VERSION: Final = -32015

RANGE_MAX: Final = 500_000
VERSION: Final = {"solana-core": "2.3.13", "feature-set": 3640012085}


Answer = Callable[[Sequence[object]], object]


class RpcError(Exception):
    """An answer that is an error object."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class Chain(Protocol):
    """The chain that is asked."""

    genesis_hash: str
    blockstore: Blockstore
    opened_slot: int
    vm: Vm

    def entries(self, block: Block) -> Sequence[Json]:
        """Return its transactions as getBlock shows them."""
        ...

    def signatures(self, block: Block) -> Sequence[Signature]:
        """Return their signatures."""
        ...


class _Config(msgspec.Struct, rename="camel"):
    """The optional last parameter of the methods that take a commitment."""

    commitment: Commitment = Commitment.FINALIZED


class _BlockConfig(msgspec.Struct, rename="camel"):
    """The optional last parameter of getBlock."""

    commitment: Commitment = Commitment.FINALIZED
    encoding: str = "json"
    transaction_details: str = "full"
    max_supported_transaction_version: int | None = None
    rewards: bool = True


ConfigT = TypeVar("ConfigT", _Config, _BlockConfig)


class Methods:
    """Answers calls about one chain."""

    def __init__(self, chain: Chain, more: Mapping[str, Answer]) -> None:
        """Answer about *chain*, and whatever of *more* it does not answer by itself."""
        self._chain = chain
        self._by_name: Mapping[str, Answer] = {
            **more,
            "getBlock": self._block,
            "getBlockHeight": self._height,
            "getBlockTime": self._time,
            "getBlocks": self._blocks,
            "getBlocksWithLimit": self._blocks_with_limit,
            "getFirstAvailableBlock": lambda _: chain.blockstore.first,
            "getGenesisHash": lambda _: chain.genesis_hash,
            "getHealth": lambda _: "ok",
            "getSlot": self._slot,
            "getVersion": lambda _: VERSION,
            "minimumLedgerSlot": lambda _: chain.blockstore.first,
        }

    def call(self, method: str, params: Sequence[object]) -> object:
        """Return the result of *method*.

        Raises RpcError for a refusal.
        """
        answer = self._by_name.get(method)
        if answer is None:
            raise RpcError(METHOD_NOT_FOUND, "Method not found")
        return answer(params)

    def _slot(self, params: Sequence[object]) -> int:
        return self._chain.blockstore.reached(_config(params, 0).commitment)

    def _height(self, params: Sequence[object]) -> int:
        blockstore = self._chain.blockstore
        block = blockstore.block(blockstore.reached(_config(params, 0).commitment))
        assert block is not None
        return block.height

    def _time(self, params: Sequence[object]) -> int:
        return self._find(_slot(params, 0), Commitment.CONFIRMED).time

    def _blocks(self, params: Sequence[object]) -> Sequence[int]:
        first = _slot(params, 0)
        has_end = len(params) > 1 and not isinstance(params[1], dict)
        last = _slot(params, 1) if has_end and params[1] is not None else first + RANGE_MAX
        commitment = _at_least_confirmed(_config(params, 2 if has_end else 1))
        if last - first > RANGE_MAX:
            raise RpcError(INVALID_PARAMS, f"Slot range too large; max {RANGE_MAX}")
        blockstore = self._chain.blockstore
        return blockstore.between(first, min(last, blockstore.reached(commitment)))

    def _blocks_with_limit(self, params: Sequence[object]) -> Sequence[int]:
        first, limit = _slot(params, 0), _slot(params, 1)
        if limit > RANGE_MAX:
            raise RpcError(INVALID_PARAMS, f"Limit too large; max {RANGE_MAX}")
        blockstore = self._chain.blockstore
        reached = blockstore.reached(_at_least_confirmed(_config(params, 2)))
        return blockstore.between(first, reached)[:limit]

    def _block(self, params: Sequence[object]) -> Json:
        config = _block_config(params)
        block = self._find(_slot(params, 0), config.commitment)
        shown = head(block)
        if config.transaction_details == "full":
            shown["transactions"] = self._entries(block, config.max_supported_transaction_version)
        elif config.transaction_details == "signatures":
            shown["signatures"] = self._chain.signatures(block)
        if config.rewards:
            shown["rewards"] = []
        return shown

    def _entries(self, block: Block, version_max: int | None) -> Sequence[Json]:
        entries = self._chain.entries(block)
        if version_max is not None:
            return entries
        if any(entry["version"] != "legacy" for entry in entries):
            raise RpcError(
                UNSUPPORTED_VERSION,
                "Transaction version (0) is not supported by the requesting client. Please try the"
                " request again with the following configuration parameter:"
                ' "maxSupportedTransactionVersion": 0',
            )
        return [{key: entry[key] for key in ("transaction", "meta")} for entry in entries]

    def _find(self, slot: int, commitment: Commitment) -> Block:
        blockstore = self._chain.blockstore
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
        if slot < self._chain.opened_slot:
            raise RpcError(
                LONG_TERM_SLOT_SKIPPED, f"Slot {slot} was skipped, or missing in long-term storage"
            )
        raise RpcError(
            SLOT_SKIPPED,
            f"Slot {slot} was skipped, or missing due to ledger jump to recent snapshot",
        )


def head(block: Block) -> Json:
    """Return what getBlock answers for *block* besides its transactions."""
    return {
        "blockHeight": block.height,
        "blockTime": block.time,
        "blockhash": block.blockhash,
        "parentSlot": block.parent_slot,
        "previousBlockhash": block.parent_blockhash,
    }


def _slot(params: Sequence[object], where: int) -> int:
    if len(params) <= where:
        raise RpcError(INVALID_PARAMS, f"`params` should have at least {where + 1} argument(s)")
    value = params[where]
    if type(value) is not int or not 0 <= value < 1 << 64:
        raise RpcError(INVALID_PARAMS, f"Invalid params: expected a slot, was {value!r:.40}")
    return value


def _config(params: Sequence[object], where: int) -> _Config:
    return _converted(params, where, _Config)


def _at_least_confirmed(config: _Config | _BlockConfig) -> Commitment:
    """Refuse to list blocks that no vote has confirmed."""
    if config.commitment is Commitment.PROCESSED:
        raise RpcError(INVALID_PARAMS, "Method does not support commitment below `confirmed`")
    return config.commitment


def _block_config(params: Sequence[object]) -> _BlockConfig:
    if len(params) > 1 and isinstance(params[1], str):  # the older form: the encoding alone
        params = (params[0], {"encoding": params[1]})
    config = _converted(params, 1, _BlockConfig)
    _at_least_confirmed(config)
    if config.encoding != "json":
        raise RpcError(
            INVALID_PARAMS, f"Invalid params: this node encodes `json`, was {config.encoding!r:.40}"
        )
    if config.transaction_details not in {"full", "signatures", "none"}:
        raise RpcError(
            INVALID_PARAMS,
            "Invalid params: transactionDetails is `full`, `signatures` or `none` here, was"
            f" {config.transaction_details!r:.40}",
        )
    return config


def _converted(params: Sequence[object], where: int, kind: type[ConfigT]) -> ConfigT:
    given = params[where] if len(params) > where else None
    try:
        return msgspec.convert({} if given is None else given, kind)
    except msgspec.ValidationError as error:
        raise RpcError(INVALID_PARAMS, f"Invalid params: {error}") from None
