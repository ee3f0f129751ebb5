"""Care of memory: free memory goes back to the system, garbage is collected rarely.

glibc keeps what was freed below anything that is still in use: after 1,900 connections that sent
a body each it kept 90 MB, until as many came again.
"""

import asyncio
import ctypes
import gc
from contextlib import suppress
from typing import Final

PAUSE_S: Final = 10.0
BATCH_OBJECTS: Final = 50_000  # of a fold, all of which go when it ends


async def give_memory_back() -> None:
    """Give free memory back every 10 s; has no end."""
    while True:
        await asyncio.sleep(PAUSE_S)
        await asyncio.to_thread(trim)


def trim() -> None:
    """Give free memory back now: 1 ms, or 10 ms where there are 100 MB of it."""
    with suppress(OSError, AttributeError):  # other C libraries do so themselves
        ctypes.CDLL(None).malloc_trim(0)


def freeze_startup_objects() -> None:
    """Take what the start has made out of every later garbage collection.

    It stays until the end anyway, and looking through all of it stops the
    loop for 75 ms; called once, before the first work comes.
    """
    gc.collect()
    gc.freeze()


def expect_batches() -> None:
    """Do not look for garbage in the midst of a batch: it took a third of the fold's time."""
    freeze_startup_objects()
    gc.set_threshold(BATCH_OBJECTS)
