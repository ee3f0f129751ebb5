"""The log of a process: fixed phrases with fields; no credential ever appears in one."""

import logging
import sys
from contextlib import suppress
from typing import Final

import structlog
from typing_extensions import override

_least: Final = [logging.NOTSET]


def set_level(level: str) -> None:
    """Log lines of *level* and above from now on."""
    _least[:] = [_number(level)]


def _number(level: str) -> int:
    return logging.getLevelNamesMapping()[level.upper()]


def _above_least(
    _logger: object, method: str, line: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Drop what is below the level, which may change: loggers keep what they were made with."""
    if _number("error" if method == "exception" else method) < _least[0]:
        raise structlog.DropEvent
    return line


def configure_logging(level: str, *, json_lines: bool) -> None:
    """Send every log line of this process to stderr, as JSON lines or for people."""
    set_level(level)
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if json_lines
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    structlog.configure(
        processors=[
            _above_least,
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.NOTSET),
        logger_factory=lambda *_: _Logger(sys.stderr),
        cache_logger_on_first_use=True,
    )


class _Logger(structlog.PrintLogger):
    """Prints to standard error; a line that cannot be written, on a full disk say, is lost."""

    @override
    def msg(self, message: str) -> None:
        with suppress(OSError):
            super().msg(message)

    debug = info = warning = error = critical = exception = msg
