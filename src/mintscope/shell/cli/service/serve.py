"""`mintscope serve`, `ingest` and `api`: the processes that run."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Self

import typer
import uvloop
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from mintscope.base.errors import UnusableStore
from mintscope.base.metrics import configure_logging
from mintscope.base.solana import SourceError
from mintscope.client.keypair import UnusableKeypair
from mintscope.core.market.engine.tail import ForkBelowFinalized
from mintscope.core.payments.protocol.mint import UnusablePaymentToken
from mintscope.shell.cli.config import ConfigFile, configured
from mintscope.shell.cli.output import stop
from mintscope.shell.cli.service.children import ChildEnded, Children
from mintscope.shell.config.sections import LogConfig
from mintscope.shell.wiring.api import run_api
from mintscope.shell.wiring.ingest import run_ingest
from mintscope.shell.wiring.payments import CannotSell
from mintscope.shell.wiring.site import in_url
from mintscope.shell.wiring.stores import held

LINE_EVERY_PERCENT: Final = 20
EXIT_OPERATOR: Final = 1  # something an operator must look at

app = typer.Typer()


@app.command()
def serve(config: ConfigFile = None) -> None:
    """Run ingest and api side by side, until Ctrl-C or until one of them ends."""
    loaded = configured(config)
    _configure_logging(loaded.config.log)
    file = [] if config is None else ["--config", str(config)]
    with _words(), held(loaded.config, "serve"), Children() as children:
        children.start("ingest", ["ingest", *file])
        children.start("api", ["api", *file])
        # Files come to an end; what was read from them is served on.
        children.wait(may_end={"ingest"} if loaded.config.chain.source == "files" else set())


@app.command()
def ingest(config: ConfigFile = None) -> None:
    """Read the chain and write the market; one process per installation."""
    settings = configured(config).config
    _configure_logging(settings.log)
    with _words(), CommandHistory() as history:
        uvloop.run(run_ingest(settings, history))


@app.command()
def api(config: ConfigFile = None) -> None:
    """Serve clients: the API and the pages."""
    settings = configured(config).config
    _configure_logging(settings.log)
    # uvicorn raises a signal again when it has stopped; by then there is nothing left to stop.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    with _words():
        uvloop.run(run_api(settings, _tell_address))


def _configure_logging(log: LogConfig) -> None:
    is_json = log.format == "json" or (log.format == "auto" and not sys.stderr.isatty())
    configure_logging(log.level, json_lines=is_json)


def _tell_address(host: str, port: int) -> None:
    typer.echo(f"serving http://{in_url(host)}:{port}", err=True)


@contextmanager
def _words() -> Iterator[None]:
    """End the command with one message for what an operator must look at."""
    try:
        yield
    except (
        CannotSell,
        ChildEnded,
        ForkBelowFinalized,
        OSError,
        SourceError,
        UnusableKeypair,
        UnusablePaymentToken,
        UnusableStore,
    ) as error:
        stop(f"mintscope: {error}", EXIT_OPERATOR)


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
