"""Repeated log lines are counted in one, and every line, also of a library, is a JSON object."""

import io
import json
import logging
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Thread
from typing import Any, Final

import pytest
import structlog
from typing_extensions import override

from mintscope.app.running.logging import (
    FOLDED_S,
    Folding,
    announce,
    configure_logging,
    logging_uncaught,
    naming_process,
)

TIMES: Final = {"timestamp", "exception"}
THREAD_LINES: Final = 2_000


class Log:
    """The printed lines of events that are logged at given times."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._folding = Folding(structlog.processors.JSONRenderer(), lambda: self.now_s)

    def printed(self, event: str, level: str = "warning", **fields: object) -> list[dict[str, Any]]:
        """Return the log lines, as parsed JSON, that are printed when *event* is logged."""
        try:
            text = self._folding(None, level, {"event": event, "level": level, **fields})
        except structlog.DropEvent:
            return []
        return [json.loads(line) for line in text.splitlines()]


def test_a_line_that_repeats_is_printed_once_a_minute() -> None:
    log = Log()
    (first,) = log.printed("away", reason="no answer", wait_s=0.1, exception="Traceback 1")
    assert first["exception"] == "Traceback 1"
    for number in range(500):
        log.now_s += 0.1
        assert log.printed("away", reason="no answer", wait_s=number / 7, exception="Trace") == []
    log.now_s = FOLDED_S + 1
    folded, other = log.printed("another", level="info")
    assert (folded["event"], folded["repeated"]) == ("away", 500)
    assert "exception" not in folded
    assert other["event"] == "another"
    assert len(log.printed("away", reason="no answer", wait_s=1)) == 1


def test_lines_that_differ_and_lines_of_level_info_are_not_folded() -> None:
    log = Log()
    assert log.printed("away", reason="one")
    assert log.printed("away", reason="another")
    assert log.printed("gone", reason="one")
    assert log.printed("away", level="error", reason="one")
    for signature in range(3):
        assert log.printed("a payment on chain has no row", signature=f"{signature}")
    for _ in range(3):
        assert log.printed("payment settled", level="info", signature="a")


def test_the_last_line_follows_the_count_of_the_folded_lines() -> None:
    log = Log()
    log.printed("away")
    log.printed("away")
    folded, last = log.printed("stops", level="info")
    assert (folded["event"], folded["repeated"], last["event"]) == ("away", 1, "stops")


def test_the_table_of_folded_lines_is_bounded() -> None:
    log = Log()
    for number in range(10_000):
        assert len(log.printed("away", reason=f"{number}")) == 1
    assert len(log._folding._folded) <= 200  # noqa: SLF001 - the bounded table


def test_threads_that_log_at_once_lose_no_line() -> None:
    """Python switches between threads after almost every instruction during this test."""
    log = Log()
    usual_s = sys.getswitchinterval()

    def printed(thread: int) -> int:
        lines: list[dict[str, Any]] = []
        for number in range(THREAD_LINES):
            log.now_s += FOLDED_S / 50
            lines += log.printed("away", reason=f"{thread} {number % 30}")
        return sum(line.get("repeated", 1) for line in lines)

    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as threads:
            told = sum(threads.map(printed, range(4)))
    finally:
        sys.setswitchinterval(usual_s)

    last = log.printed("stops", level="info")
    assert told + sum(line.get("repeated", 0) for line in last) == 4 * THREAD_LINES


@pytest.fixture
def _configured() -> Iterator[None]:
    before = structlog.get_config()
    handlers = list(logging.root.handlers)
    configure_logging("error", json_lines=True)
    yield
    structlog.configure(**before)
    logging.root.handlers = handlers
    logging.captureWarnings(False)  # noqa: FBT003 - of logging


@pytest.mark.usefixtures("_configured")
def test_every_line_is_one_json_object(capsys: pytest.CaptureFixture[str]) -> None:
    logging.getLogger("asyncio").error("Task was destroyed\nbut it is pending")
    logging.getLogger("httpx").warning("not shown: the level is error")
    structlog.get_logger().error("task ended", exc_info=ValueError("of two\nlines"))
    announce("serving", address="http://127.0.0.1:8402")

    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["event"] for line in lines] == [
        "Task was destroyed\nbut it is pending",
        "task ended",
        "serving",
    ]
    assert lines[0]["logger"] == "asyncio"
    assert lines[2]["address"] == "http://127.0.0.1:8402"


class Unfinished:
    def __del__(self) -> None:
        raise ValueError("in a finalizer")


@pytest.mark.usefixtures("_configured")
def test_an_uncaught_exception_is_one_json_object(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        raise ValueError("in a thread")

    with naming_process("ingest"), logging_uncaught():
        thread = Thread(target=fail, name="writer")
        thread.start()
        thread.join()
        Unfinished()

    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["event"] for line in lines] == ["uncaught"] * 2
    assert [line["process"] for line in lines] == ["ingest"] * 2
    assert [line["exception"].splitlines()[-1] for line in lines] == [
        "ValueError: in a thread",
        "ValueError: in a finalizer",
    ]
    assert lines[0]["where"] == "writer"
    assert "Unfinished" in lines[1]["where"]


@pytest.mark.usefixtures("_configured")
def test_a_line_and_its_newline_are_one_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes of `serve` share standard error: another process may write between two writes."""
    writes: list[str] = []

    class Recorded(io.StringIO):
        @override
        def write(self, text: str) -> int:
            writes.append(text)
            return len(text)

    monkeypatch.setattr(sys, "stderr", Recorded())
    configure_logging("info", json_lines=True)
    structlog.get_logger().info("serving", address="http://127.0.0.1:1")

    (written,) = writes
    assert written.endswith("}\n")
