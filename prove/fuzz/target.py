"""A parser or another function that is fuzzed, with its inputs and the check of its results."""

import asyncio
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mintscope.kit.primitives import UnixMs
from prove.fuzz.inputs import Inputs

FOLDER: Final = Path(tempfile.mkdtemp(prefix="mintscope-fuzz-"))
LOOP: Final = asyncio.new_event_loop()
KEY: Final = "11111111111111111111111111111112"
NOW: Final = UnixMs(1_700_000_000_000)


@dataclass(frozen=True)
class Target:
    """A function to fuzz; for any input, it may raise only the exceptions *refusals*."""

    inputs: Inputs
    examine: Callable[[bytes], object]
    refusals: tuple[type[Exception], ...] = ()
