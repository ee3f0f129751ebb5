"""Sixteen recorded transactions of mainnet, which are in the repository: see tests/data."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from support.oracles.recorded import facts
from support.scenes.json_transactions import decode_transaction

FILE: Final = Path(__file__).resolve().parents[1] / "data" / "mainnet_transactions.jsonl"
RECORDED: Final = [json.loads(line) for line in FILE.read_text().splitlines()]


@pytest.mark.parametrize("one", RECORDED, ids=lambda one: one["signature"][:8])
def test_each_recorded_transaction_has_its_expected_swaps(one: dict[str, Any]) -> None:
    decoded = decode_transaction(json.dumps(one["recorded"]).encode(), 0)

    assert [facts(swap) for swap in decoded.swaps] == one["expected"]
    assert decoded.quarantined == []


def test_the_sample_covers_three_versions_and_twenty_programs() -> None:
    swaps = [swap for one in RECORDED for swap in one["expected"]]
    versions = {one["recorded"].get("version") for one in RECORDED}

    assert len(RECORDED) == 16
    assert {"legacy", 0, 1} <= versions
    assert sum(not one["expected"] for one in RECORDED) == 2
    assert len({swap["program"] for swap in swaps}) >= 20
    assert {swap["side"] for swap in swaps} >= {"buy", "sell"}
