"""Hashing passwords with argon2id.

The parameters are those that OWASP recommends as the least: 19 MiB, two passes, one lane.  A
hash takes some 30 ms of one core, so at most two are made at a time, in threads of a low
priority, and not more than a few dozen wait: a flood of sign-ins slows down sign-in, and nothing
else.
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

from mintscope.base.errors import ServiceUnavailable

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
    """Implements Hasher in one event loop; beyond *waiting_max* at once: ServiceUnavailable."""

    def __init__(self, *, waiting_max: int = WAITING_MAX) -> None:
        _hash_of_no_password()  # now, so that the first comparison takes no longer than others
        _give_memory_back()
        self._threads = ThreadPoolExecutor(
            THREADS, thread_name_prefix="argon2", initializer=_lower_priority
        )
        self._places = BoundedSemaphore(waiting_max)

    async def hash(self, password: str) -> str:
        """Return what may be stored of *password*."""
        return await self._run(lambda: ARGON2.hash(_one_form(password)))

    async def matches(self, password: str, stored: str | None) -> bool:
        """Say whether *stored* was made of *password*; None takes as long and is never right."""
        return await self._run(lambda: self._verify(password, stored))

    def close(self) -> None:
        """Let the threads end; what waits is not hashed any more."""
        self._threads.shutdown(wait=True, cancel_futures=True)

    def _verify(self, password: str, stored: str | None) -> bool:
        try:
            ARGON2.verify(stored or _hash_of_no_password(), _one_form(password))
        except (VerificationError, InvalidHashError):
            return False
        return stored is not None

    async def _run(self, work: Callable[[], T]) -> T:
        if not self._places.acquire(blocking=False):
            raise ServiceUnavailable("Too many people are signing in just now; try again soon.")
        future = self._threads.submit(work)
        future.add_done_callback(lambda _: self._places.release())  # not when its client leaves
        return await asyncio.wrap_future(future)


def _lower_priority() -> None:
    """Let the event loop go first; only Linux has priorities of threads."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)


def _give_memory_back() -> None:
    """Let glibc return the memory of a hash when it is made: it would keep 19 MiB for a thread."""
    with suppress(OSError, AttributeError):  # other C libraries do so themselves
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, MMAP_BYTES_MIN)


@cache
def _hash_of_no_password() -> str:
    """Return the hash of a random password: comparing with it takes as long as with a user's."""
    return ARGON2.hash(os.urandom(16))


def _one_form(password: str) -> str:
    """Return the password in the one form of all keyboards (RFC 8265, 4.2)."""
    return unicodedata.normalize("NFC", password)
