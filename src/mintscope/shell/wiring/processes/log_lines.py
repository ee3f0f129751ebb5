"""The log of a process: fixed phrases with fields; no credential ever appears in one."""

import logging
import sys
from contextlib import suppress

import structlog
from typing_extensions import override


def configure_logging(level: str, *, json_lines: bool) -> None:
    """Send every log line of this process to stderr, as JSON lines or for people."""
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if json_lines
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.getLevelNamesMapping()[level.upper()]
        ),
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
