"""Reads transactions of the devchain in JSON, as a client of the devchain does."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from based58 import b58decode

from mintscope.dex.outcome import Swap
from mintscope.kit.primitives import Slot, UnixMs, UnixS
from mintscope_devchain.chain import Devchain
from support.oracles.recorded import keys_of

NOW = UnixMs(1_763_640_000_000)
Entry = Mapping[str, Any]
Meant = Mapping[Slot, tuple[UnixS, Sequence[Swap]]]


class Node(NamedTuple):
    """One executed instruction, with the instructions that it called directly."""

    program: str
    accounts: Sequence[str]
    data: bytes
    calls: list["Node"]


def shown(chain: Devchain, slot: int) -> Sequence[Entry]:
    """Return the transactions of *slot* as a client has them: encoded as JSON and decoded."""
    block = chain.blockstore.block(slot)
    assert block is not None
    decoded: Sequence[Entry] = msgspec.json.decode(msgspec.json.encode(chain.entries(block)))
    return decoded


def everything(chain: Devchain) -> Iterator[Entry]:
    """Yield all stored transactions of *chain*, oldest first."""
    for slot in chain.blockstore.slots:
        yield from shown(chain, slot)


def tree(entry: Entry) -> list[Node]:
    """Return the top-level instructions of *entry*, each with its inner instructions."""
    names = keys_of(entry)
    below = {each["index"]: each["instructions"] for each in entry["meta"]["innerInstructions"]}
    roots = []
    for number, outer in enumerate(entry["transaction"]["message"]["instructions"]):
        stack = [_node(outer, names)]
        roots.append(stack[0])
        for inner in below.get(number, []):
            node = _node(inner, names)
            del stack[inner["stackHeight"] - 1 :]
            stack[-1].calls.append(node)
            stack.append(node)
    return roots


def nodes(entry: Entry) -> Iterator[Node]:
    """Yield every instruction of the transaction *entry*, in order of execution."""
    stack = tree(entry)[::-1]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(node.calls))


def _node(instruction: Mapping[str, Any], names: Sequence[str]) -> Node:
    return Node(
        names[instruction["programIdIndex"]],
        [names[index] for index in instruction["accounts"]],
        b58decode(instruction["data"].encode()),
        [],
    )
