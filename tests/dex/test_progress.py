"""The progress of bonding curves in recorded transactions, compared with their reserves."""

import json
from pathlib import Path

import pytest

from mintscope.dex.outcome import Swap
from mintscope.solana.blocks import WSOL
from support.scenes.json_transactions import decode_transaction

FOLDERS = ("transactions", "transactions_2026", "transactions_2026b")
CURVES = {"pumpfun", "raydium_launchlab", "meteora_dbc"}


@pytest.fixture(scope="module")
def curves(shared_data: Path) -> list[Swap]:
    """Return every recorded swap of a curve."""
    found = []
    for folder in FOLDERS:
        if not (shared_data / folder).is_dir():
            pytest.skip(f"the recorded transactions are not there: {folder}")
        lines = (shared_data / folder / "fixtures.jsonl").read_text().splitlines()
        for line in lines:
            raw = (shared_data / folder / json.loads(line)["file"]).read_bytes()
            swaps = decode_transaction(raw, 0).swaps
            found += [one for one in swaps if one.program in CURVES]
    return found


def reserve(swap: Swap) -> int:
    """Return the SOL in the curve after *swap*, virtual SOL included, in lamports."""
    return (swap.in_left if swap.in_mint == WSOL else swap.out_left) or 0


def test_the_progress_of_a_pumpfun_curve_follows_from_its_reserve(curves: list[Swap]) -> None:
    """A common curve of pump.fun begins with 30 SOL and 1,073 M tokens, and sells 793.1 M."""
    common = [one for one in curves if one.program == "pumpfun" and reserve(one) >= 30 * 10**9]
    assert len(common) >= 15
    for one in common:
        sold = 1_073_000_000 * (1 - 30 * 10**9 / reserve(one))
        assert one.progress == pytest.approx(1e6 * sold / 793_100_000, abs=2)


def test_swaps_of_every_curve_program_have_a_progress(curves: list[Swap]) -> None:
    reported = {one.program: one.progress for one in curves}
    assert reported.keys() == CURVES
    assert all(one.progress is not None and 0 <= one.progress <= 10**6 for one in curves)
