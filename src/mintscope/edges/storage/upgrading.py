"""Telling of migrations that run: before each one, and after it."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import structlog

from mintscope.base.metrics import MIGRATIONS_LEFT

DIGITS: Final = 1

log = structlog.get_logger()


@contextmanager
def telling(kind: str, name: str, *, left: int) -> Iterator[None]:
    """Log that migration *name* of the store *kind* runs during the block, and its time.

    left   how many have not run, this one among them
    """
    MIGRATIONS_LEFT.set(left)
    log.info("migrating", store=kind, migration=name, left=left)
    begun_s = time.monotonic()
    yield
    took_s = round(time.monotonic() - begun_s, DIGITS)
    MIGRATIONS_LEFT.set(left - 1)
    log.info("migrated", store=kind, migration=name, took_s=took_s)
