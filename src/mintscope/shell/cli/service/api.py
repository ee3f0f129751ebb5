"""`mintscope api`: the process that serves clients."""

import signal
from dataclasses import replace
from typing import Annotated

import typer
import uvloop

from mintscope.shell.cli.config import ConfigFile, configured
from mintscope.shell.cli.service.running import IsNew, living
from mintscope.shell.config.config import Config
from mintscope.shell.config.load import load
from mintscope.shell.wiring.api import run_api
from mintscope.shell.wiring.processes.log_lines import announce
from mintscope.shell.wiring.processes.siblings import Siblings
from mintscope.shell.wiring.site import in_url

app = typer.Typer()


@app.command()
def api(
    context: typer.Context,
    *,
    config: ConfigFile = None,
    listener: Annotated[
        int | None, typer.Option(hidden=True, help="File descriptor of a listening socket.")
    ] = None,
    worker: Annotated[
        int, typer.Option(min=1, max=64, hidden=True, help="Which one of several, from 1.")
    ] = 1,
    is_new: IsNew = False,
    again: Annotated[bool, typer.Option("--again", hidden=True, help="It ran before.")] = False,
) -> None:
    """Serve clients: the API and the pages."""
    siblings: Siblings = context.obj or Siblings(has_parent=False)
    siblings.is_restart = again
    loaded = configured(config)
    settings = of_worker(loaded.config, worker)
    # uvicorn raises a signal again when it has stopped; by then there is nothing left to stop.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    name = "api" if worker == 1 else f"api-{worker}"
    with living(name, replace(loaded, config=settings)) as life:
        serving = run_api(
            settings,
            _announce_address if life.tells_json else _tell_address,
            siblings,
            listener,
            is_new=is_new,
            reread=lambda: of_worker(load(config).config, worker),
        )
        life.note_signal(uvloop.run(serving))


def of_worker(settings: Config, worker: int) -> Config:
    """Return the settings of one of several workers: their own ports follow each other."""
    metrics = settings.metrics
    web = settings.web
    more = worker - 1
    metrics = metrics.model_copy(update={"api_port": metrics.api_port + more})
    if web.admin_port is not None:
        web = web.model_copy(update={"admin_port": web.admin_port + more})
    return settings.model_copy(update={"metrics": metrics, "web": web})


def _tell_address(host: str, port: int) -> None:
    typer.echo(f"serving http://{in_url(host)}:{port}", err=True)


def _announce_address(host: str, port: int) -> None:
    announce("serving", address=f"http://{in_url(host)}:{port}")
