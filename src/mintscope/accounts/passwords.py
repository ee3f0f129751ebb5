"""Password hashes with argon2id, computed in threads.

The parameters are the minimum that OWASP recommends: 19 MiB, two passes, one lane.  A hash takes
about 30 ms of one core.  Therefore at most two hashes are computed at a time, in threads of low
priority, and only a few dozen may wait: a flood of sign-ins slows down only other sign-ins.
"""

import asyncio
import ctypes
import os
import sys
import threading
import unicodedata
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from threading import BoundedSemaphore
from typing import Final, TypeVar

from argon2 import PasswordHasher, Type
from argon2.exceptions import InvalidHashError, VerificationError

from mintscope.kit.errors import ServiceUnavailable

T = TypeVar("T")

THREADS: Final = 2
WAITING_MAX: Final = 64
NICE: Final = 10
M_MMAP_THRESHOLD: Final = -3  # <malloc.h> of glibc
MMAP_BYTES_MIN: Final = 1024 * 1024
ARGON2: Final = PasswordHasher(
    time_cost=2, memory_cost=19 * 1024, parallelism=1, hash_len=32, salt_len=16, type=Type.ID
)


class Argon2Hasher:
    """Hashes passwords.

    `hash` and `matches` raise ServiceUnavailable if *waiting_max* passwords are already waiting or
    being hashed.
    """

    def __init__(self, *, waiting_max: int = WAITING_MAX) -> None:
        _hash_of_no_password()  # computed now, so that the first comparison is not slower
        _give_memory_back()
        self._threads = ThreadPoolExecutor(
            THREADS, thread_name_prefix="argon2", initializer=_lower_priority
        )
        self._places = BoundedSemaphore(waiting_max)

    async def hash(self, password: str) -> str:
        """Return the hash of *password*, for storage."""
        return await self._run(lambda: ARGON2.hash(_one_form(password)))

    async def matches(self, password: str, stored: str | None) -> bool:
        """Return whether *stored* is a hash of *password*.

        If *stored* is None, return False after the time that a comparison takes.
        """
        return await self._run(lambda: self._verify(password, stored))

    def close(self) -> None:
        """Stop the threads; passwords that still wait are not hashed."""
        self._threads.shutdown(wait=True, cancel_futures=True)

    def _verify(self, password: str, stored: str | None) -> bool:
        try:
            ARGON2.verify(stored or _hash_of_no_password(), _one_form(password))
        except (VerificationError, InvalidHashError):
            return False
        return stored is not None

    async def _run(self, work: Callable[[], T]) -> T:
        # The queue of a ThreadPoolExecutor itself has no limit.
        if not self._places.acquire(blocking=False):
            raise ServiceUnavailable(
                "Too many people are signing in right now. Try again in a moment."
            )
        future = self._threads.submit(work)
        future.add_done_callback(lambda _: self._places.release())  # even if the client left
        return await asyncio.wrap_future(future)


def _lower_priority() -> None:
    """Lower the priority of this thread below the event loop's; only Linux supports this."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)


def _give_memory_back() -> None:
    """Make glibc release the memory of a hash; otherwise it keeps 19 MiB for each thread."""
    with suppress(OSError, AttributeError):  # other C libraries release it themselves
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, MMAP_BYTES_MIN)


@cache
def _hash_of_no_password() -> str:
    """Return the hash of a random password, so that a check without a user takes the same time."""
    return ARGON2.hash(os.urandom(16))


def _one_form(password: str) -> str:
    """Return *password* in NFC, which is the same from every keyboard (RFC 8265, 4.2)."""
    return unicodedata.normalize("NFC", password)
