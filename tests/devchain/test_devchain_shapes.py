"""Devchain transactions have the shape of recorded ones, instruction by instruction."""

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mintscope_devchain import addresses
from mintscope_devchain.chain import Devchain
from support.oracles.devchain_blocks import Node, everything, nodes

SELF_CALL = bytes.fromhex("e445a52e51cb9a1d")
TRADE_EVENT = bytes.fromhex("bddb7fd34ee661ee")
VENUES = {
    addresses.PUMP_SWAP,
    addresses.RAYDIUM_V4,
    addresses.RAYDIUM_CLMM,
    addresses.WHIRLPOOL,
    addresses.METEORA_DLMM,
}


class Kind(NamedTuple):
    """The shape of an instruction, without its amounts and accounts."""

    program: str
    head: bytes
    length: int


class Shape(NamedTuple):
    """The form of an instruction: its kind, its number of accounts, and the kinds that it calls."""

    kind: Kind
    accounts: int
    calls: tuple[Kind, ...]


def kind(node: Node) -> Kind:
    if node.program in {addresses.SPL, addresses.SPL_2022, addresses.SYSTEM}:
        return Kind("token or system", node.data[:1], len(node.data))
    if node.program == addresses.RAYDIUM_V4:
        return Kind(node.program, node.data[:1], len(node.data))
    head = 16 if node.data.startswith(SELF_CALL) else 8
    return Kind(node.program, node.data[:head], len(node.data))


def shape(node: Node) -> Shape:
    return Shape(kind(node), len(node.accounts), tuple(map(kind, node.calls)))


def recorded(shared_data: Path) -> Iterator[dict[str, Any]]:
    """Yield the recorded transactions that have the stack height of each call."""
    for path in sorted((shared_data / "transactions" / "tx").glob("*.json")):
        entry: dict[str, Any] = json.loads(path.read_text())
        inner = [
            i for each in entry["meta"]["innerInstructions"] or [] for i in each["instructions"]
        ]
        if inner and all(instruction.get("stackHeight") for instruction in inner):
            yield entry


@pytest.fixture
def traded(young: Devchain) -> Devchain:
    for _ in range(60):
        young.tick()
    return young


def test_every_pool_instruction_has_a_recorded_shape(traded: Devchain, shared_data: Path) -> None:
    real = {shape(node) for entry in recorded(shared_data) for node in nodes(entry)}
    ours = defaultdict(set)
    for entry in everything(traded):
        for node in nodes(entry):
            if node.program in VENUES:
                ours[node.program].add(shape(node))

    assert set(ours) == VENUES
    for shapes in ours.values():
        assert shapes <= real


def test_pump_fun_instructions_match_the_newest_layout(traded: Devchain, shared_data: Path) -> None:
    """The published layouts are the oracle, because the recorded transactions are older."""
    layouts = json.loads((shared_data / "layouts" / "dex_layouts.json").read_text())
    accounts = {
        bytes.fromhex(each["discriminator"]): len(each["accounts"])
        for each in layouts["pumpfun.json"]["instructions"]
    }
    vectors = [
        bytes.fromhex(json.loads(line)["hex"])
        for line in (shared_data / "events" / "event_vectors.jsonl").read_text().splitlines()
    ]
    lengths = {len(each) for each in vectors if each.startswith(SELF_CALL + TRADE_EVENT)}
    seen = set()
    for entry in everything(traded):
        for node in nodes(entry):
            if node.program == addresses.PUMP_FUN and not node.data.startswith(SELF_CALL):
                assert len(node.accounts) == accounts[node.data[:8]]
                assert len(node.calls[-1].data) in lengths
                seen.add(node.data[:8])

    assert len(seen) == 2


def test_a_jupiter_route_has_the_outline_of_a_recorded_route(
    traded: Devchain, shared_data: Path
) -> None:
    """The pools may differ, but not the route's instruction or the event after each pool."""

    def outline(node: Node) -> Sequence[object]:
        events = [call.data[:16] for call in node.calls if call.program == addresses.JUPITER]
        lengths = {len(call.data) for call in node.calls if call.program == addresses.JUPITER}
        return [node.data[:8], len(node.calls) == 2 * len(events), set(events), lengths]

    def routes(entries: Iterator[Any]) -> list[Node]:
        return [
            node
            for entry in entries
            for node in nodes(entry)
            if node.program == addresses.JUPITER
            and node.data.startswith(bytes.fromhex("e517cb977ae3ad2a"))
        ]

    real = [outline(node) for node in routes(recorded(shared_data)) if len(node.calls) == 4]
    ours = routes(everything(traded))

    assert len(ours) > 10
    assert all(len(node.calls) == 4 and outline(node) in real for node in ours)


def test_an_entry_has_the_json_keys_of_a_recorded_entry(
    traded: Devchain, shared_data: Path
) -> None:
    def keys(value: object, path: str = "") -> Iterator[str]:
        if isinstance(value, dict):
            for key, below in value.items():
                yield f"{path}.{key}"
                if key not in {"err", "status"}:
                    yield from keys(below, f"{path}.{key}")
        elif isinstance(value, list):
            for below in value:
                yield from keys(below, f"{path}[]")

    real = {key for entry in recorded(shared_data) for key in keys(entry)}
    ours = {key for entry in everything(traded) for key in keys(entry)}
    optional = {".slot", ".blockTime", ".meta.costUnits", ".meta.returnData"}

    assert ours <= real
    assert {
        key
        for key in real - ours
        if not key.startswith(tuple(optional)) and "readableIndexes" not in key
    } == set()


def test_blocks_contain_every_required_program_version_and_instruction(traded: Devchain) -> None:
    entries = list(everything(traded))
    programs = {node.program for entry in entries for node in nodes(entry)}
    versions = {entry["version"] for entry in entries}
    heads = {(node.program, node.data[:8].hex()) for entry in entries for node in nodes(entry)}

    assert {*VENUES, addresses.PUMP_FUN, addresses.JUPITER} <= programs
    assert addresses.VOTE not in programs
    assert versions == {"legacy", 0}
    assert any(entry["meta"]["err"] for entry in entries)
    assert any(entry["meta"]["loadedAddresses"]["writable"] for entry in entries)
    for head in ("f223c68952e1f2b6", "b712469c946da122"):
        assert (addresses.PUMP_SWAP, head) in heads
    assert any(
        len(entry["transaction"]["message"]["instructions"]) == 1
        and next(nodes(entry)).program == addresses.SYSTEM
        for entry in entries
    )


def test_account_keys_are_unique_and_match_header_and_lookups(traded: Devchain) -> None:
    for entry in everything(traded):
        message = entry["transaction"]["message"]
        loaded = entry["meta"]["loadedAddresses"]
        static = message["accountKeys"]
        lookups = message.get("addressTableLookups", [])
        every = [*static, *loaded["writable"], *loaded["readonly"]]

        assert len(set(every)) == len(every) <= 64
        assert len(entry["meta"]["preBalances"]) == len(entry["meta"]["postBalances"]) == len(every)
        assert message["header"]["numReadonlyUnsignedAccounts"] < len(static)
        assert sum(len(each["writableIndexes"]) for each in lookups) == len(loaded["writable"])
        assert sum(len(each["readonlyIndexes"]) for each in lookups) == len(loaded["readonly"])


def test_a_failed_transaction_changes_no_balance_except_by_its_fee(traded: Devchain) -> None:
    failed = [entry for entry in everything(traded) if entry["meta"]["err"] is not None]

    assert failed
    for entry in failed:
        meta = entry["meta"]
        assert meta["status"] == {"Err": meta["err"]}
        assert meta["preTokenBalances"] == meta["postTokenBalances"] != []
        assert all(int(b["uiTokenAmount"]["amount"]) for b in meta["preTokenBalances"])
        assert meta["preBalances"][0] - meta["postBalances"][0] == meta["fee"]
        assert meta["preBalances"][1:] == meta["postBalances"][1:]
        assert meta["innerInstructions"]
        assert meta["logMessages"][-1].endswith("failed: custom program error: 0x1771")
