"""`mintscope ingest`: the process that reads the chain."""

import signal
from typing import Final, Self

import typer
import uvloop
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from mintscope.shell.cli.config import ConfigFile, configured
from mintscope.shell.cli.service.running import IsNew, living
from mintscope.shell.config.load import load
from mintscope.shell.wiring.ingest import run_ingest
from mintscope.shell.wiring.processes.log_lines import announce

LINE_EVERY_PERCENT: Final = 20

app = typer.Typer()


@app.command()
def ingest(*, config: ConfigFile = None, is_new: IsNew = False) -> None:
    """Read the chain and write the market; one process per installation."""
    loaded = configured(config)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until its handler is set
    with living("ingest", loaded) as life, CommandHistory(tells_json=life.tells_json) as history:
        reread = lambda: load(config).config  # noqa: E731 - of one line
        life.note_signal(
            uvloop.run(run_ingest(loaded.config, history, is_new=is_new, reread=reread))
        )


class CommandHistory:
    """A progress bar on a terminal, or else a line now and then; silent once caught up.

    Call it with (done, all).  All may grow while the chain goes on, and done is below
    zero if a source goes back to replace orphaned blocks.

    tells_json   the lines are those of the log
    """

    def __init__(self, *, tells_json: bool = False) -> None:
        self._tells_json = tells_json
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
            self._tell("history read, following the chain")
            return
        self._bar.update(self._task, completed=done, total=total)
        percent = 100 * done // max(total, 1)
        if not self._console.is_terminal and percent >= self._percent_told + LINE_EVERY_PERCENT:
            self._percent_told = percent
            self._tell("reading history", percent)

    def _tell(self, what: str, percent: int | None = None) -> None:
        if self._tells_json:
            announce(what, **({} if percent is None else {"percent": percent}))
        else:
            self._console.print(what if percent is None else f"{what}: {percent} %")
