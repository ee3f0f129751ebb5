"""`mintscope ingest`: the process that reads the chain."""

import signal
from typing import Final, Self

import typer
import uvloop
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from mintscope.shell.cli.config import ConfigFile, configured
from mintscope.shell.cli.service.running import IsNew, ending_in_words, start_logging
from mintscope.shell.config.load import load
from mintscope.shell.wiring.ingest import run_ingest

LINE_EVERY_PERCENT: Final = 20

app = typer.Typer()


@app.command()
def ingest(*, config: ConfigFile = None, is_new: IsNew = False) -> None:
    """Read the chain and write the market; one process per installation."""
    settings = configured(config).config
    start_logging(settings.log)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until it is listened to
    with ending_in_words(), CommandHistory() as history:
        reread = lambda: load(config).config  # noqa: E731 - of one line
        uvloop.run(run_ingest(settings, history, is_new=is_new, reread=reread))


class CommandHistory:
    """A progress bar on a terminal, a line now and then elsewhere; silent once caught up.

    Call it with (done, all).  All may grow while the chain goes on, and done is below
    zero where a source goes back for what died.
    """

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        self._bar = Progress(
            TextColumn("reading history"),
            BarColumn(),
            TaskProgressColumn(),
            TimeRemainingColumn(),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._task = self._bar.add_task("history", total=None)
        self._percent_told = 0
        self._is_over = False

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def __call__(self, done: int, total: int) -> None:
        """Show that *done* of *total* are read."""
        if self._is_over:
            return
        if done >= total:
            self._is_over = True
            self._bar.stop()
            self._console.print("history read, following the chain")
            return
        self._bar.update(self._task, completed=done, total=total)
        percent = 100 * done // max(total, 1)
        if not self._console.is_terminal and percent >= self._percent_told + LINE_EVERY_PERCENT:
            self._percent_told = percent
            self._console.print(f"reading history: {percent} %")
