"""One measured figure: how it is printed, and kept for the report."""

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

KEPT: Final = Path(__file__).resolve().parents[1] / "build" / "bench"


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A measurement of ours or of a peer.

    ratio    how many times better ours is than this peer; None on our own rows
    goal     what we set out to reach, in words; empty where there is none
    """

    what: str
    who: str
    value: float
    unit: str
    ratio: float | None = None
    goal: str = ""


def line(figure: Figure) -> str:
    """Return *figure* as one aligned line."""
    ratio = "" if figure.ratio is None else f"{figure.ratio:10.2f}x"
    value = f"{figure.value:14,.2f}"
    return f"{figure.what:44} {figure.who:34} {value} {figure.unit:14} {ratio:12} {figure.goal}"


def tell(figure: Figure) -> None:
    """Print *figure*, and keep it in build/bench/ under the name of the benchmark that runs."""
    print(line(figure))
    KEPT.mkdir(parents=True, exist_ok=True)
    with (KEPT / f"{Path(sys.argv[0]).stem}.jsonl").open("a") as file:
        file.write(json.dumps(asdict(figure)) + "\n")
