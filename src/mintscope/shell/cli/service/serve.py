"""`mintscope serve`, `ingest` and `api`: the processes that run."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import typer
import uvloop

from mintscope.base.errors import UnusableStore
from mintscope.base.metrics import configure_logging
from mintscope.core.market.engine.tail import ForkBelowFinalized
from mintscope.core.payments.protocol.mint import UnusablePaymentToken
from mintscope.edges.ingest.pipeline import SourceBroken
from mintscope.edges.sources.files import FileError
from mintscope.edges.sources.rpc import RpcFailure
from mintscope.shell.cli.config import ConfigFile, configured
from mintscope.shell.cli.service.children import ChildEnded, Children
from mintscope.shell.cli.service.history import History
from mintscope.shell.config.keypair import UnusableKeypair
from mintscope.shell.config.sections import LogConfig
from mintscope.shell.wiring.api import run_api
from mintscope.shell.wiring.ingest import run_ingest
from mintscope.shell.wiring.payments import CannotSell
from mintscope.shell.wiring.site import in_url
from mintscope.shell.wiring.stores import hold

EXIT_OPERATOR: Final = 1  # something an operator must look at

app = typer.Typer()


@app.command()
def serve(config: ConfigFile = None) -> None:
    """Run ingest and api side by side, until Ctrl-C or until one of them ends."""
    loaded = configured(config)
    _configure_logging(loaded.config.log)
    file = [] if config is None else ["--config", str(config)]
    with _words(), hold(loaded.config, "serve"), Children() as children:
        children.start("ingest", ["ingest", *file])
        children.start("api", ["api", *file])
        # Files come to an end; what was read from them is served on.
        children.wait(may_end={"ingest"} if loaded.config.chain.source == "files" else set())


@app.command()
def ingest(config: ConfigFile = None) -> None:
    """Read the chain and write the market; one process per installation."""
    settings = configured(config).config
    _configure_logging(settings.log)
    with _words(), History() as history:
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
        FileError,
        ForkBelowFinalized,
        OSError,
        RpcFailure,
        SourceBroken,
        UnusableKeypair,
        UnusablePaymentToken,
        UnusableStore,
    ) as error:
        typer.echo(f"mintscope: {error}", err=True)
        raise typer.Exit(EXIT_OPERATOR) from None
