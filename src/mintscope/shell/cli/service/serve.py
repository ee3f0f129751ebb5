"""`mintscope serve`, `ingest` and `api`: the processes that run."""

import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Final, Self

import typer
import uvloop
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from mintscope.base.errors import StoreUnavailable, UnusableStore
from mintscope.base.metrics import configure_logging
from mintscope.base.solana import SourceError
from mintscope.client.keypair import UnusableKeypair
from mintscope.core.market.engine.tail import ForkBelowFinalized
from mintscope.core.payments.protocol.mint import UnusablePaymentToken
from mintscope.shell.cli.config import ConfigFile, configured
from mintscope.shell.cli.output import stop
from mintscope.shell.cli.service.children import (
    EXIT_OPERATOR,
    STOP_TIMEOUT_S,
    ChildEnded,
    Children,
    Role,
)
from mintscope.shell.config.sections import LogConfig
from mintscope.shell.wiring.api import bind, run_api
from mintscope.shell.wiring.ingest import WrongChain, run_ingest
from mintscope.shell.wiring.payments import CannotSell
from mintscope.shell.wiring.siblings import Siblings
from mintscope.shell.wiring.site import in_url
from mintscope.shell.wiring.stores import held

LINE_EVERY_PERCENT: Final = 20
EXIT_FAILED: Final = 1

app = typer.Typer()


@app.command()
def serve(config: ConfigFile = None) -> None:
    """Run ingest and api side by side until Ctrl-C; one that ends is started again."""
    loaded = configured(config)
    _configure_logging(loaded.config.log)
    file = [] if config is None else ["--config", str(config)]
    settings, is_file = loaded.config, loaded.config.chain.source == "files"
    with ending_in_words(operator=EXIT_FAILED), held(settings, "serve"):
        for role in ("ingest", "api"):  # children of a `serve` that was killed end in a moment
            with held(settings, role, patience_s=STOP_TIMEOUT_S):
                pass
        # Clients that connect while the api is started again wait in this socket.
        with bind(settings.api) as listener, Children() as children:
            # Files come to an end; what was read from them is served on.
            children.start("ingest", ["ingest", *file], role=Role(may_end=is_file))
            start_api(children, listener, file)
            children.wait()
            listener.close()  # the last one to hold it is the api, which ends


@app.command()
def ingest(config: ConfigFile = None) -> None:
    """Read the chain and write the market; one process per installation."""
    settings = configured(config).config
    _configure_logging(settings.log)
    with ending_in_words(), CommandHistory() as history:
        uvloop.run(run_ingest(settings, history))


@app.command()
def api(
    context: typer.Context,
    *,
    config: ConfigFile = None,
    listener: Annotated[
        int | None, typer.Option(hidden=True, help="File descriptor of a listening socket.")
    ] = None,
    again: Annotated[bool, typer.Option("--again", hidden=True, help="It ran before.")] = False,
) -> None:
    """Serve clients: the API and the pages."""
    siblings: Siblings = context.obj
    siblings.is_restart = again
    settings = configured(config).config
    _configure_logging(settings.log)
    # uvicorn raises a signal again when it has stopped; by then there is nothing left to stop.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    with ending_in_words():
        uvloop.run(run_api(settings, _tell_address, siblings, listener))


def start_api(children: Children, listener: socket.socket, options: Sequence[str] = ()) -> None:
    """Start an api that serves the clients of *listener*; without it there is no service."""
    arguments = ["api", "--listener", str(listener.fileno()), *options]
    role = Role(is_vital=True, again=("--again",))
    children.start("api", arguments, role=role, listener=listener)


def _configure_logging(log: LogConfig) -> None:
    is_json = log.format == "json" or (log.format == "auto" and not sys.stderr.isatty())
    configure_logging(log.level, json_lines=is_json)


def _tell_address(host: str, port: int) -> None:
    typer.echo(f"serving http://{in_url(host)}:{port}", err=True)


@contextmanager
def ending_in_words(operator: int = EXIT_OPERATOR) -> Iterator[None]:
    """End the command with one message: with *operator* where an operator must decide."""
    try:
        yield
    except (ChildEnded, OSError, StoreUnavailable, SourceError) as error:
        stop(f"mintscope: {error}", operator if isinstance(error, WrongChain) else EXIT_FAILED)
    except (
        CannotSell,
        ForkBelowFinalized,
        UnusableKeypair,
        UnusablePaymentToken,
        UnusableStore,
    ) as error:
        stop(f"mintscope: {error}", operator)


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
