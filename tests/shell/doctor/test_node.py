"""Whether a node will do is said in one word, with the reason."""

from pathlib import Path

import pytest
from pydantic import SecretStr

from mintscope.base.primitives import Slot
from mintscope.shell.cli.doctor.finding import Level
from mintscope.shell.cli.doctor.node import _plan, _reasons, check_node
from mintscope.shell.config.config import Config
from mintscope.shell.config.sections import ChainConfig
from mintscope.shell.wiring.sources.node_watch import NodeWatch


def watched(*took_s: float, behind: int = 0, failures: tuple[str, ...] = ()) -> NodeWatch:
    return NodeWatch(
        genesis_hash="g",
        version=1,
        first_available=Slot(0),
        start=Slot(1_000_000),
        head=Slot(1_000_100),
        seconds=30.0,
        took_s=list(took_s),
        behind=behind,
        failures=list(failures),
    )


@pytest.mark.parametrize(
    ("watch", "reason"),
    [
        (watched(), "it gave no block"),
        (watched(*[3.0] * 9), "expected 3.75 blocks/s; was 3.33 blocks/s with 10 in flight"),
        (watched(0.1, behind=9), "it ended 9 blocks behind"),
        (watched(0.1, failures=("HTTP 429",)), "1 requests without an answer (HTTP 429)"),
    ],
)
def test_a_node_that_will_not_do_is_told_why(watch: NodeWatch, reason: str) -> None:
    assert reason in _reasons(watch, 10)


def test_a_node_that_holds_the_pace_will_do() -> None:
    assert _reasons(watched(*[2.6] * 90, 9.0, behind=8), 10) == []


def test_a_plan_that_ends_before_the_month_is_told() -> None:
    (enough,) = _plan(100_000_000)
    (short,) = _plan(10_000_000)
    assert (enough.level, short.level) == (Level.OK, Level.WARN)


def test_a_node_that_is_not_there_will_not_do(tmp_path: Path) -> None:
    chain = ChainConfig(rpc_url=SecretStr("http://127.0.0.1:9"), timeout_s=0.1)

    (finding,) = check_node(Config(data_dir=tmp_path, chain=chain), 1.0, None)

    assert finding.level is Level.FAIL
