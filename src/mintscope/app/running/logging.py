"""Log lines: their form, their level, and the omission of repeats.

A line is a fixed phrase with fields.  No line contains a credential.
"""

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import structlog
from typing_extensions import override

from mintscope.app.config.config import LogConfig

Line: TypeAlias = MutableMapping[str, Any]
Render: TypeAlias = Callable[[Any, str, Line], str | bytes]

FOLDED_S: Final = 60.0
FOLDED_LINES_MAX: Final = 200
FOLDED_LEVELS: Final = frozenset({"warning", "error", "critical"})
# Fields that are ignored when lines are compared: they differ in each line of the same failure.
CHANGING: Final = frozenset({"timestamp", "exception", "exc_info", "slot", "seq", "at"})
# The last line of a process (`Life.stops`); omitted repeats are logged together with it.
LAST_LINE: Final = "stops"

_least: Final = [logging.NOTSET]
# Not a context variable, because a thread does not inherit those of its creator.
_process: Final = list[str]()


@contextmanager
def naming_process(process: str) -> Iterator[None]:
    """Add *process* to each line that any thread logs during the block."""
    _process[:] = [process]
    try:
        yield
    finally:
        _process.clear()


def _with_process(
    _logger: object, _method: str, line: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    if _process:
        # Lines of `serve` about a child already have the name of the child in this field.
        line.setdefault("process", _process[0])
    return line


def set_level(level: str) -> None:
    """Set the minimum *level* of logged lines."""
    _least[:] = [_number(level)]


def _number(level: str) -> int:
    return logging.getLevelNamesMapping()[level.upper()]


def _above_least(
    _logger: object, method: str, line: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Drop *line* if it is below the current level, which may change while loggers exist."""
    if _number("error" if method == "exception" else method) < _least[0]:
        raise structlog.DropEvent
    return line


def configure_logging(level: str, *, json_lines: bool) -> None:
    """Send the log lines of this process to stderr, as JSON lines or for people.

    Lines below *level*, and records of libraries below warning, are dropped.
    """
    set_level(level)
    renderer: Render = (
        structlog.processors.JSONRenderer()
        if json_lines
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    structlog.configure(
        processors=[
            _above_least,
            structlog.contextvars.merge_contextvars,
            _with_process,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            Folding(renderer),
        ],
        # Loggers keep this level for ever, so `_above_least` drops lines instead.
        wrapper_class=structlog.make_filtering_bound_logger(logging.NOTSET),
        logger_factory=lambda *_: _Logger(sys.stderr),
        cache_logger_on_first_use=True,
    )
    logging.captureWarnings(True)  # noqa: FBT003 - of logging
    logging.root.handlers = [
        # A second call must not log each record twice.
        *(each for each in logging.root.handlers if not isinstance(each, _OfLibraries)),
        _OfLibraries(logging.WARNING),
    ]


def logs_json(log_config: LogConfig) -> bool:
    """Return whether lines are JSON; with format "auto", they are if stderr is no terminal."""
    if log_config.format == "auto":
        return not sys.stderr.isatty()
    return log_config.format == "json"


def announce(event: str, **fields: object) -> None:
    """Log *event* even below the minimum level: a program that started this one may wait for it."""
    processors = structlog.get_config()["processors"]
    logger = structlog.wrap_logger(
        _Logger(sys.stderr),
        processors=[each for each in processors if each is not _above_least],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
    )
    logger.info(event, **fields)


@contextmanager
def logging_uncaught() -> Iterator[None]:
    """Log uncaught exceptions of threads and finalizers during the block.

    Without this, Python prints them as several lines that are not JSON.
    """
    before = sys.unraisablehook, threading.excepthook
    sys.unraisablehook = lambda found: _tell_uncaught(found.exc_value, repr(found.object))
    threading.excepthook = lambda found: _tell_uncaught(
        found.exc_value, "" if found.thread is None else found.thread.name
    )
    try:
        yield
    finally:
        sys.unraisablehook, threading.excepthook = before


def _tell_uncaught(error: BaseException | None, where: str) -> None:
    with suppress(Exception):  # the interpreter may be shutting down
        structlog.get_logger().error("uncaught", where=where, exc_info=error)


@dataclass(slots=True)
class _Folded:
    """A logged line, and the number of repeats that were not logged since *since_s*."""

    line: Line
    since_s: float
    left_out: int = 0


class Folding:
    """Renders lines as text; logs a repeated line once a minute, with the number of repeats.

    A warning or error repeats a line of the last minute if all fields of both are equal, except
    CHANGING and durations.  Several threads may log at the same time.
    """

    def __init__(self, render: Render, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._render = render
        self._monotonic_s = monotonic_s
        self._folded: dict[tuple[object, ...], _Folded] = {}
        # A finalizer may log while its thread logs another line: the lock is reentrant, and `_due`
        # walks over a copy.
        self._lock = threading.RLock()

    def __call__(self, logger: Any, method: str, line: Line) -> str:
        """Return *line* as text, after the repeats that are due to be reported.

        *line* is left out if it repeats a line of the last minute.  Raises DropEvent if nothing is
        left.
        """
        now_s = self._monotonic_s()
        with self._lock:
            lines = self._due(now_s, until_s=now_s if line.get("event") == LAST_LINE else None)
            if not self._is_left_out(line, now_s):
                lines.append(line)
        if not lines:
            raise structlog.DropEvent
        rendered = [self._render(logger, method, each) for each in lines]
        return "\n".join(each if isinstance(each, str) else each.decode() for each in rendered)

    def _due(self, now_s: float, *, until_s: float | None) -> list[Line]:
        """Return each line whose minute is over and that was repeated, with the number of repeats.

        until_s   minutes that began up to this time are over; None: the time 60 s ago
        """
        over_s = now_s - FOLDED_S if until_s is None else until_s
        due: list[Line] = []
        for key, folded in self._folded.copy().items():
            if folded.since_s > over_s:
                continue
            self._folded.pop(key, None)
            if folded.left_out:
                due.append({**folded.line, "repeated": folded.left_out})
        return due

    def _is_left_out(self, line: Line, now_s: float) -> bool:
        """Return whether *line* repeats a line of the last minute, and count the repeat."""
        if line.get("level") not in FOLDED_LEVELS:
            return False
        key = _key(line)
        known = self._folded.get(key)
        if known is None:
            # Above the maximum, repeats are logged, so that memory is bounded.
            if len(self._folded) < FOLDED_LINES_MAX:
                self._folded[key] = _Folded(dict(line), now_s)
            return False
        known.left_out += 1
        # At the end of the minute, the newest repeat is logged, without its traceback.
        known.line = {name: each for name, each in line.items() if name != "exception"}
        return True


def _key(line: Mapping[str, object]) -> tuple[object, ...]:
    return tuple(
        (name, repr(value))
        for name, value in sorted(line.items())
        if name not in CHANGING and not name.endswith(("_s", "_ms"))
    )


class _OfLibraries(logging.Handler):
    """Writes the log records of libraries, which use `logging`, to the log of this process."""

    @override
    def emit(self, record: logging.LogRecord) -> None:
        with suppress(Exception):  # only a record that cannot be rendered is lost
            structlog.get_logger().log(
                record.levelno, record.getMessage(), logger=record.name, exc_info=record.exc_info
            )


class _Logger(structlog.WriteLogger):
    """Writes to standard error; a line that cannot be written, for example to a full disk, is lost.

    A line and its line end are one write, because the processes of `serve` share standard error.
    """

    @override
    def msg(self, message: str) -> None:
        with suppress(OSError):
            super().msg(message)

    # In WriteLogger, these names stand for its own `msg`.
    debug = info = warning = error = critical = exception = msg
