"""The doctor reports whether a node is suitable, and the reasons if it is not."""

import json
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from pydantic import SecretStr
from typing_extensions import override

from mintscope.app.config.config import ChainConfig
from mintscope.app.config.groups import Config
from mintscope.app.doctor.chain import _history, _plan, _reasons, check_node
from mintscope.app.doctor.finding import Level
from mintscope.app.sources import NodeWatch
from mintscope.kit.primitives import Slot
from mintscope.solana import rpc
from mintscope.solana.finality_meter import Behind
from mintscope.solana.pace import Pace


def watched(
    *took_s: float, behind: int = 0, failures: tuple[str, ...] = (), slot_s: float = 0.2
) -> NodeWatch:
    return NodeWatch(
        genesis_hash="g",
        version=1,
        first_available=Slot(0),
        start=Slot(1_000_000),
        head=Slot(1_000_100),
        pace=Pace(slot_s, 300.0),
        seconds=30.0,
        took_s=list(took_s),
        behind=behind,
        failures=list(failures),
    )


@pytest.mark.parametrize(
    ("watch", "reason"),
    [
        (watched(), "the node returned no block"),
        (
            watched(*[1.5] * 9, slot_s=0.1),
            "expected 10.00 blocks/s; was 6.67 blocks/s with 10 in flight",
        ),
        (watched(*[3.0] * 9), "expected 5.00 blocks/s; was 3.33 blocks/s with 10 in flight"),
        (
            watched(*[5.0] * 9, slot_s=0.4),
            "expected 2.50 blocks/s; was 2.00 blocks/s with 10 in flight",
        ),
        (
            watched(*[9.0] * 9, slot_s=0.8),
            "expected 1.25 blocks/s; was 1.11 blocks/s with 10 in flight",
        ),
        (watched(0.1, behind=17, slot_s=0.1), "it ended 17 blocks behind, 1.7 s"),
        (watched(0.1, behind=9), "it ended 9 blocks behind, 1.8 s"),
        (watched(0.1, behind=5, slot_s=0.4), "it ended 5 blocks behind, 2.0 s"),
        (watched(0.1, behind=3, slot_s=0.8), "it ended 3 blocks behind, 2.4 s"),
        (watched(0.1, failures=("HTTP 429",)), "1 requests had no answer (HTTP 429)"),
    ],
)
def test_an_unsuitable_node_is_refused_with_the_reason(watch: NodeWatch, reason: str) -> None:
    assert reason in _reasons(watch, 10)


@pytest.mark.parametrize("slot_s", [0.1, 0.2, 0.4, 0.8])
def test_a_node_that_keeps_up_with_the_chain_is_suitable(slot_s: float) -> None:
    behind = round(1.6 / slot_s)
    assert _reasons(watched(*[9.7 * slot_s] * 90, 30.0, behind=behind, slot_s=slot_s), 10) == []


def test_a_node_without_a_pace_is_judged_by_its_other_measurements() -> None:
    watch = watched(*[3.0] * 9)
    watch.pace = None
    assert _reasons(watch, 10) == []
    watch.behind = 9
    assert _reasons(watch, 10) == ["it ended 9 blocks behind"]
    assert "slots" in _history(watch).what
    assert _history(watch).level is Level.WARN


@pytest.mark.parametrize(("slot_s", "days"), [(0.1, 11.6), (0.2, 23.1), (0.4, 46.3), (0.8, 92.6)])
def test_history_is_counted_in_days_of_the_chain(slot_s: float, days: float) -> None:
    watch = watched(0.1, slot_s=slot_s)
    watch.head = Slot(10_000_000)
    assert f"reaches back {days} days" in _history(watch).what


def test_a_plan_that_ends_before_the_month_is_reported() -> None:
    watch = watched(*[0.1] * 112)
    watch.calls = 30 * 7
    (enough,) = _plan(100_000_000, watch)
    (short,) = _plan(10_000_000, watch)
    assert (enough.level, short.level) == (Level.OK, Level.WARN)


def test_a_node_that_does_not_answer_fails(tmp_path: Path) -> None:
    chain = ChainConfig(rpc_url=SecretStr("http://127.0.0.1:9"), timeout_s=0.1)

    (finding,) = check_node(Config(data_dir=tmp_path, chain=chain), 1.0, None)

    assert finding.level is Level.FAIL


def test_an_answer_without_an_end_is_read_up_to_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Endless(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(200)
            self.end_headers()
            with suppress(OSError):
                while True:
                    self.wfile.write(bytes(1_000))

        @override
        def log_message(self, *_: object, **__: object) -> None:
            """Print nothing."""

    monkeypatch.setattr(rpc, "RESPONSE_BYTES_MAX", 10_000)
    monkeypatch.setattr(rpc, "BACKOFF_S", 0.0)
    with ThreadingHTTPServer(("127.0.0.1", 0), Endless) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        url = SecretStr(f"http://127.0.0.1:{server.server_port}")
        chain = ChainConfig(rpc_url=url, timeout_s=0.2)
        (finding,) = check_node(Config(data_dir=tmp_path, chain=chain), 0.1, None)
        server.shutdown()

    assert "expected at most 10000 bytes" in finding.what


def test_calls_a_day_are_those_of_ingest_not_of_the_watch() -> None:
    watch = watched(*[0.1] * 112)
    watch.calls, watch.polls = 350, 200
    (counted,) = _plan(None, watch)

    # For each slot of 200 ms, a block and 0.15 requests that come too early; finality each 0.3 s.
    assert counted.what == "calls: 350 in 30 s; ingest makes about 784,800 a day"


@pytest.mark.parametrize(
    ("behind_s", "calls"), [(0.4, 784_800), (4.0, 784_800), (4.1, 583_200), (12.8, 583_200)]
)
def test_the_finality_of_a_slow_node_is_requested_once_a_second(
    behind_s: float, calls: int
) -> None:
    watch = watched(*[0.1] * 112)
    watch.calls, watch.polls = 350, 200
    watch.final = Behind(round(behind_s / 0.2), behind_s)

    assert watch.calls_a_day == calls


def test_the_version_of_the_node_is_reported(tmp_path: Path) -> None:
    version = "2.3.4"

    class Answers(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            answers = {"getVersion": {"solana-core": version}, "getGenesisHash": "g"}
            answer = {"jsonrpc": "2.0", "id": 1, "result": answers.get(asked["method"], 7)}
            body = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        @override
        def log_message(self, *_: object, **__: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        chain = ChainConfig(rpc_url=SecretStr(f"http://127.0.0.1:{server.server_port}"))
        found = list(check_node(Config(data_dir=tmp_path, chain=chain), 0.1, None))
        server.shutdown()

    assert any("runs version 2.3.4" in finding.what for finding in found)
