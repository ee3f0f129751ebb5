"""The progress of reading a past, for people."""

from typing import Final, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

LINE_EVERY_PERCENT: Final = 10


class Bar:
    """A progress bar on a terminal, a line now and then elsewhere.

    total   transactions, about: what is read may be more
    """

    def __init__(self, total: int) -> None:
        self._console = Console(stderr=True)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._total = max(total, 1)
        self._done: dict[str, int] = {}
        self._told: dict[str, int] = {}
        self._tasks = {
            what: self._bar.add_task(what, total=self._total) for what in ("listed", "read")
        }

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def __call__(self, what: str, count: int) -> None:
        """Show that *count* more are listed or read."""
        done = self._done[what] = self._done.get(what, 0) + count
        self._bar.update(self._tasks[what], completed=done, total=max(done, self._total))
        percent = min(100, 100 * done // self._total)
        if (
            not self._console.is_terminal
            and percent >= self._told.get(what, 0) + LINE_EVERY_PERCENT
        ):
            self._told[what] = percent
            self._console.print(f"{what}: {done} of about {self._total}")

    def say(self, what: str) -> None:
        """Print a line beside the bar."""
        self._console.print(what)
