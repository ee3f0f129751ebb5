"""Starts the host in a process of its own, and hears from it."""

import os
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import msgspec
import pytest

from prove.mutation import fork
from prove.mutation.fresh import OPTIONS
from prove.mutation.host import Host, Told
from prove.mutation.plan import LEFT_OUT


def answers(tests: tuple[str, ...], wanted: dict[str, set[str]], folder: Path) -> Iterator[Told]:
    """Yield the fate of each of the *wanted* mutants, as soon as it is known."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 3
        try:
            os.close(reading)
            code = _serve(tests, wanted, folder, writing)
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading, "rb") as lines:
        for line in lines:
            yield msgspec.json.decode(line, type=Told)
    _, status = os.waitpid(child, 0)
    if status != 0:
        log = (folder / "log").read_text(errors="replace")[-3000:]
        raise SystemExit(f"expected the tests to be collected and run:\n{log}")


def _serve(tests: tuple[str, ...], wanted: dict[str, set[str]], folder: Path, pipe: int) -> int:
    hypothesis.settings.register_profile(
        "mutation",
        database=None,
        deadline=None,
        phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
    )
    hypothesis.settings.load_profile("mutation")

    fork.silence(f"{folder}/log")
    with os.fdopen(pipe, "wb") as file:

        def tell(told: Told) -> None:
            file.write(msgspec.json.encode(told) + b"\n")
            file.flush()

        paths = [f"tests/{test}" for test in tests]
        left_out = [f"--ignore=tests/{test}" for test in LEFT_OUT]
        options = [*OPTIONS, f"--basetemp={folder}/base", *left_out]
        return int(pytest.main([*options, *paths], plugins=[Host(wanted, folder, tell)]))
