"""A dollar token off its peg is exported and logged; if it no longer trades, it is not exported."""

from collections.abc import Iterator
from typing import Final

import pytest
import structlog

from mintscope.ingest.slots import Pegs
from mintscope.kit.metrics import DOLLAR_OFF_PEG
from mintscope.kit.primitives import Mint, UnixS
from mintscope.solana.blocks import USD1, USDC, USDT

NOW: Final = UnixS(1_800_000_000)
FINE: Final = {USDC: 0.0, USDT: 0.001, USD1: -0.002}


def shown() -> dict[str, float]:
    (metric,) = DOLLAR_OFF_PEG.collect()
    return {sample.labels["mint"]: sample.value for sample in metric.samples}


@pytest.fixture
def pegs() -> Iterator[Pegs]:
    DOLLAR_OFF_PEG.clear()
    yield Pegs()
    DOLLAR_OFF_PEG.clear()


def test_the_metric_shows_each_dollar(pegs: Pegs) -> None:
    assert shown() == {}
    pegs.show(FINE, NOW)

    assert shown() == {USDC: 0.0, USDT: 0.001, USD1: -0.002}


def test_a_dollar_that_stops_trading_is_not_shown(pegs: Pegs) -> None:
    pegs.show(FINE, NOW)
    pegs.show({USDC: 0.0, USDT: 0.001}, NOW)
    assert set(shown()) == {USDC, USDT}
    pegs.show({}, NOW)

    assert shown() == {}


def test_leaving_a_peg_is_logged_once_and_the_return_too(pegs: Pegs) -> None:
    with structlog.testing.capture_logs() as logs:
        for second, share in enumerate([0.0, -0.011, -0.02, -0.12] + [-0.12 + 1e-9] * 60):
            pegs.show({**FINE, USD1: share}, UnixS(NOW + second))
        pegs.show(FINE, UnixS(NOW + 70))

    assert [(entry["event"], entry["mint"], entry["off"]) for entry in logs] == [
        ("dollar_off_peg", USD1, -0.011),
        ("dollar_on_peg", USD1, -0.002),
    ]


def test_a_dollar_at_the_edge_of_its_peg_is_seldom_logged(pegs: Pegs) -> None:
    with structlog.testing.capture_logs() as logs:
        for second in range(300):
            off = {**FINE, USD1: 0.011 if second % 2 else 0.009}
            pegs.show(off, UnixS(NOW + second))

    assert len(logs) <= 6


def test_any_mint_may_be_a_dollar(pegs: Pegs) -> None:
    pegs.show({Mint("another"): 0.5}, NOW)

    assert shown() == {"another": 0.5}
