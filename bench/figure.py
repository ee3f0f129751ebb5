"""One measured figure, and how it is printed."""

from dataclasses import dataclass


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
