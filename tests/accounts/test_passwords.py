"""Checks of passwords by argon2id hashes, of which only a few are computed at a time."""

import asyncio
import platform
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from threading import Barrier, Event, Semaphore

import pytest

from mintscope.accounts import passwords
from mintscope.accounts.passwords import NICE, Argon2Hasher
from mintscope.kit.errors import ServiceUnavailable
from support.scenes.people.quick_passwords import AS_SERVED

PASSWORD = "correct horse battery"
PATIENCE_S = 10.0


@pytest.fixture
async def hasher(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Argon2Hasher]:
    monkeypatch.setattr(passwords, "ARGON2", AS_SERVED)
    hasher = Argon2Hasher(waiting_max=4)
    yield hasher
    hasher.close()


async def test_a_hash_names_argon2id_and_its_parameters(hasher: Argon2Hasher) -> None:
    """OWASP recommends at least 19 MiB, two passes and one lane."""
    assert (await hasher.hash(PASSWORD)).startswith("$argon2id$v=19$m=19456,t=2,p=1$")


async def test_the_right_password_matches_and_no_other(hasher: Argon2Hasher) -> None:
    stored = await hasher.hash(PASSWORD)

    assert await hasher.matches(PASSWORD, stored)
    assert not await hasher.matches(PASSWORD + " ", stored)
    assert not await hasher.matches("", stored)


async def test_the_password_of_an_unknown_account_never_matches(hasher: Argon2Hasher) -> None:
    for password in (PASSWORD, ""):
        assert not await hasher.matches(password, None)


async def test_a_malformed_hash_never_matches(hasher: Argon2Hasher) -> None:
    for stored in ("x", "$argon2id$", PASSWORD):
        assert not await hasher.matches(PASSWORD, stored)


async def test_the_same_password_has_another_hash_each_time(hasher: Argon2Hasher) -> None:
    assert await hasher.hash(PASSWORD) != await hasher.hash(PASSWORD)


async def test_composed_and_decomposed_characters_of_a_password_match(hasher: Argon2Hasher) -> None:
    stored = await hasher.hash("Motörhead forever")

    assert await hasher.matches("Moto\u0308rhead forever", stored)


async def test_a_check_is_refused_while_four_hashes_wait_and_accepted_later(
    hasher: Argon2Hasher,
) -> None:
    asked = [asyncio.create_task(hasher.hash(PASSWORD)) for _ in range(4)]
    await asyncio.sleep(0)

    with pytest.raises(ServiceUnavailable):
        await hasher.matches(PASSWORD, None)

    assert len(await asyncio.gather(*asked)) == 4
    assert await hasher.matches(PASSWORD, await hasher.hash(PASSWORD))


class HeldHashes:
    """Begins hashes, and computes none until `go_on` is set; then two at a time, in two threads."""

    def __init__(self) -> None:
        self.go_on = Event()
        self._begun = Semaphore(0)
        self._together = Barrier(2)

    def hash(self, password: str) -> str:
        self._begun.release()
        assert self.go_on.wait(PATIENCE_S)
        # A pair is computed only after each thread has ended its hash of the pair before.
        self._together.wait(PATIENCE_S)
        return f"hash of {password}"

    def wait_begun(self, count: int) -> None:
        for _ in range(count):
            assert self._begun.acquire(timeout=PATIENCE_S)


async def test_a_cancelled_hash_keeps_its_place_until_its_thread_has_computed_it(
    hasher: Argon2Hasher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of four cancelled hashes, two run in threads; the other two free their places at once."""
    held = HeldHashes()
    monkeypatch.setattr(passwords, "ARGON2", held)
    asked = [asyncio.create_task(hasher.hash(PASSWORD)) for _ in range(4)]
    await asyncio.to_thread(held.wait_begun, 2)
    for each in asked:
        each.cancel()
    await asyncio.gather(*asked, return_exceptions=True)
    accepted = [asyncio.create_task(hasher.hash(PASSWORD)) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(ServiceUnavailable):
        await hasher.hash(PASSWORD)
    held.go_on.set()

    assert await asyncio.gather(*accepted) == [f"hash of {PASSWORD}"] * 2
    assert len(await asyncio.gather(*(hasher.hash(PASSWORD) for _ in range(4)))) == 4


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has priorities of threads")
async def test_hashes_are_computed_in_threads_of_lower_priority(hasher: Argon2Hasher) -> None:
    await hasher.hash(PASSWORD)

    assert NICE in priorities()


def priorities() -> set[int]:
    """Return the priorities of all threads of this process."""
    threads = [each.read_text() for each in Path("/proc/self/task").glob("*/stat")]
    return {int(each.rpartition(")")[2].split()[16]) for each in threads}


HASHING = """
import asyncio
import platform
import subprocess
import sys
from pathlib import Path
from pathlib import Path
from mintscope.accounts.passwords import Argon2Hasher

def held_mb():
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) // 1024

async def main():
    hasher = Argon2Hasher()
    before_mb = held_mb()
    for _ in range(4):
        await asyncio.gather(*(hasher.hash("correct horse") for _ in range(4)))
    print(held_mb() - before_mb)

asyncio.run(main())
"""


@pytest.mark.process
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries differ")
def test_the_memory_of_hashes_is_released() -> None:
    command = [sys.executable, "-c", HASHING]
    grown = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout

    assert int(grown) < 10, f"expected less than 10 MB more; {grown} were held"
