"""A target of fuzzing."""

import asyncio
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from hypothesis import strategies as st

from mintscope.base.primitives import UnixMs

FOLDER: Final = Path(tempfile.mkdtemp(prefix="mintscope-fuzz-"))
LOOP: Final = asyncio.new_event_loop()
KEY: Final = "11111111111111111111111111111112"
NOW: Final = UnixMs(1_700_000_000_000)


@dataclass(frozen=True)
class Target:
    """What may raise one of *refusals* for an input, and nothing else."""

    inputs: st.SearchStrategy[Any]
    examine: Callable[[Any], object]
    refusals: tuple[type[Exception], ...] = ()
