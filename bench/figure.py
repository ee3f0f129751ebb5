"""A figure that a benchmark measured; its line in a table, and its file for the report."""

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

KEPT: Final = Path(__file__).resolve().parents[1] / "build" / "bench"
HEAD: Final = (
    f"{'what':44} {'who':34} {'value':>14} {'unit':14} {'spread':>7} {'CPU us':>10} {'wall us':>10}"
    f" {'ours is':>11}  goal"
)


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A measurement of mintscope or of a peer: the median of its rounds.

    what      the measured operation
    who       the implementation, such as "mintscope"
    ratio     how many times better mintscope is than this peer or floor; None for a figure of
              mintscope
    goal      the goal, as text; "" if there is none
    spread    half the distance between the quartiles of the rounds, divided by the median
    cpu_us    the processor time of one operation, of all threads, in microseconds
    wall_us   the elapsed time of one operation, in microseconds
    """

    what: str
    who: str
    value: float
    unit: str
    ratio: float | None = None
    goal: str = ""
    spread: float | None = None
    cpu_us: float | None = None
    wall_us: float | None = None


def line(figure: Figure) -> str:
    """Return *figure* as one line of a table, with aligned columns."""
    value = f"{figure.value:14,.2f}"
    spread = "" if figure.spread is None else f"{figure.spread:.1%}"
    cpu, wall = ("" if us is None else f"{us:,.1f}" for us in (figure.cpu_us, figure.wall_us))
    ratio = "" if figure.ratio is None else f"{figure.ratio:.2f}x"
    measured = f"{value} {figure.unit:14} {spread:>7} {cpu:>10} {wall:>10} {ratio:>11}"
    return f"{figure.what:44} {figure.who:34} {measured}  {figure.goal}".rstrip()


def tell(figure: Figure) -> None:
    """Print *figure*, and store it in build/bench/ under the name of the running benchmark."""
    print(line(figure), flush=True)
    KEPT.mkdir(parents=True, exist_ok=True)
    with (KEPT / f"{Path(sys.argv[0]).stem}.jsonl").open("a") as file:
        file.write(json.dumps(asdict(figure)) + "\n")
