"""The commands api, ingest and mcp."""

import asyncio
import signal
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final, Self

import typer
import uvloop
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from mintscope.app.cli.config import ConfigFile, configured
from mintscope.app.cli.output import stop
from mintscope.app.config.groups import Config
from mintscope.app.config.load import load
from mintscope.app.config.values import in_url
from mintscope.app.running.logging import announce
from mintscope.app.running.processes import loading
from mintscope.app.running.serve import IsNew, living
from mintscope.app.running.tracing import Siblings
from mintscope.kit.credentials import CredentialKind
from mintscope_client.cli.connection import CREDENTIAL_VARIABLE, CredentialFile, Url, credential_of

LINE_EVERY_PERCENT: Final = 20

app = typer.Typer()


@app.command()
def ingest(*, config: ConfigFile = None, is_new: IsNew = False) -> None:
    """Read the chain and write the market; one process per installation."""
    with loading():
        from mintscope.app.ingest import run_ingest  # noqa: PLC0415 - each loads its own parts

    loaded = configured(config)
    with living("ingest", loaded) as life, CommandHistory(tells_json=life.tells_json) as history:
        reread = lambda: load(config).config  # noqa: E731 - of one line
        life.note_signal(
            uvloop.run(run_ingest(loaded.config, history, is_new=is_new, reread=reread))
        )


class CommandHistory:
    """Shows progress until ingest has caught up: a bar on a terminal, elsewhere an occasional line.

    The total may grow.  The number done is negative if a reorg abandons blocks from before the
    start of the source.
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
        self._percent_reported = 0
        self._is_over = False

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def __call__(self, done: int, total: int) -> None:
        """Show that *done* of *total* slots, or bytes of files, are read."""
        if self._is_over:
            return
        if done >= total:
            self._is_over = True
            self._bar.stop()
            self._tell("history read, following the chain")
            return
        self._bar.update(self._task, completed=done, total=total)
        percent = 100 * done // max(total, 1)
        if not self._console.is_terminal and percent >= self._percent_reported + LINE_EVERY_PERCENT:
            self._percent_reported = percent
            self._tell("reading history", percent)

    def _tell(self, what: str, percent: int | None = None) -> None:
        if self._tells_json:
            announce(what, **({} if percent is None else {"percent": percent}))
        else:
            self._console.print(what if percent is None else f"{what}: {percent} %")


@app.command()
def api(
    context: typer.Context,
    *,
    config: ConfigFile = None,
    listener: Annotated[
        int | None, typer.Option(hidden=True, help="File descriptor of a listening socket.")
    ] = None,
    worker: Annotated[
        int,
        typer.Option(
            min=1, max=64, hidden=True, help="Number of this process among several, from 1."
        ),
    ] = 1,
    is_new: IsNew = False,
    again: Annotated[
        bool, typer.Option("--again", hidden=True, help="The process was restarted.")
    ] = False,
) -> None:
    """Serve clients: the API and the pages."""
    with loading():
        from mintscope.app.api import run_api  # noqa: PLC0415 - 20 MB that ingest does not need

    siblings: Siblings = context.obj or Siblings(has_parent=False)
    siblings.is_restart = again
    loaded = configured(config)
    settings = of_worker(loaded.config, worker)
    # Until the server handles them, SIGINT and SIGTERM end the process: each step of the start can
    # be interrupted.  SIGHUP has no effect until settings can be reloaded.
    signal.signal(signal.SIGHUP, lambda *_: None)
    name = "api" if worker == 1 else f"api-{worker}"
    with living(name, replace(loaded, config=settings)) as life:

        def ready(host: str, port: int) -> None:
            address = f"http://{in_url(host)}:{port}"
            if life.tells_json:
                announce("serving", address=address)
            else:
                typer.echo(f"serving {address}", err=True)

        serving = run_api(
            settings,
            ready,
            siblings,
            listener,
            is_new=is_new,
            reread=lambda: of_worker(load(config).config, worker),
        )
        life.note_signal(uvloop.run(serving))


def of_worker(settings: Config, worker: int) -> Config:
    """Return *settings* for the api process *worker*, whose listeners have other ports.

    These are the ports of metrics and of the administrators' pages.  Port 0, any free port, is the
    same for all workers.
    """
    metrics = settings.metrics
    web = settings.web
    more = worker - 1
    if metrics.api_port:
        metrics = metrics.model_copy(update={"api_port": metrics.api_port + more})
    if web.admin_port is not None:
        web = web.model_copy(update={"admin_port": web.admin_port + more})
    return settings.model_copy(update={"metrics": metrics, "web": web})


EXIT_NO_SERVICE: Final = 1
PAYS: Final = (CredentialKind.CREDIT_TOKEN, CredentialKind.API_KEY)


@app.command()
def mcp(
    url: Url,
    credential_file: CredentialFile = None,
    max_credits: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Credits that all calls may take at most.", show_default=False
        ),
    ] = None,
    max_usd: Annotated[
        str | None,
        typer.Option(
            metavar="USD", help="USD that all payments may cost at most.", show_default=False
        ),
    ] = None,
) -> None:
    """Serve the tools of a service to an MCP client, on standard input and output.

    The command ends when its input ends.  The service adds up the costs of calls, and refuses calls
    that would cost more than you allow.
    """
    with loading():
        from mintscope.app.mcp import CannotBridge, run_bridge  # noqa: PLC0415 - loads the server's

    credential = _credential(credential_file)
    try:
        asyncio.run(run_bridge(url, credential, max_credits=max_credits, max_usd=max_usd))
    except CannotBridge as cause:
        stop(str(cause), EXIT_NO_SERVICE)


def _credential(file: Path | None) -> str | None:
    try:
        text = credential_of(file)
    except ValueError as flaw:
        raise typer.BadParameter(str(flaw), param_hint="--credential-file") from None
    if text is not None and not text.startswith(tuple(kind.prefix for kind in PAYS)):
        raise typer.BadParameter(
            "expected svc_credit_<64 hex>, or svc_live_<80 hex>; it holds something else",
            param_hint=f"--credential-file or {CREDENTIAL_VARIABLE}",
        )
    return text
