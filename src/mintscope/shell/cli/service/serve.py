"""`mintscope serve`: ingest and api side by side, each started again when it ends."""

import socket
from collections.abc import Callable, Sequence
from typing import Annotated, Final

import typer

from mintscope.shell.cli.config import ConfigFile, configured
from mintscope.shell.cli.service.children import STOP_TIMEOUT_S, Children, Role
from mintscope.shell.cli.service.running import EXIT_FAILED, IsNew, living
from mintscope.shell.config.config import Config
from mintscope.shell.config.load import load
from mintscope.shell.config.load import settings as settings_of_all
from mintscope.shell.wiring.processes.holding import held
from mintscope.shell.wiring.processes.listening import bind
from mintscope.shell.wiring.processes.log_lines import set_level
from mintscope.shell.wiring.processes.reloading import Apply, Reloading, Reread

# Credentials of its stream: the process restarts with new ones within a moment.
OF_INGEST_ALONE: Final = "geyser."

app = typer.Typer()


@app.command()
def serve(
    *,
    config: ConfigFile = None,
    workers: Annotated[
        int,
        typer.Option(
            min=1, max=64, metavar="N", help="How many api processes; several need a `store`."
        ),
    ] = 1,
    is_new: IsNew = False,
) -> None:
    """Run ingest and api side by side until Ctrl-C; one that ends is started again."""
    loaded = configured(config)
    if workers > 1 and loaded.config.store is None:
        raise typer.BadParameter(
            "expected the setting store for several workers: SQLite has one writer, and a second"
            " process makes every debit slower",
            param_hint="--workers",
        )
    options = [] if config is None else ["--config", str(config)]
    if is_new:
        options.append("--new")
    settings = loaded.config
    is_file = loaded.config.chain.source == "files"
    with living("serve", loaded, in_use=EXIT_FAILED) as life, held(settings, "serve"):
        for role in ("ingest", "api"):  # children of a `serve` that was killed end in a moment
            with held(settings, role, patience_s=STOP_TIMEOUT_S):
                pass
        # Clients that connect while the api is started again wait in this socket.
        with bind(settings.api) as listener, Children() as children:
            children.on_hang_up(_reloads(settings, lambda: load(config).config))
            # Files come to an end; what was read from them is served on.
            children.start("ingest", ["ingest", *options], role=Role(may_end=is_file))
            for worker in range(1, workers + 1):
                start_api(children, listener, options, worker=worker)
            children.wait()
            life.note_signal(children.stopped_by)
            listener.close()  # the last one to hold it is the api, which ends


def _reloads(settings: Config, reread: Reread) -> Callable[[], Sequence[str]]:
    """Return the handler of SIGHUP, which returns the names of processes to restart."""
    keys = [each.key for _, _, group in settings_of_all() for each in group]
    applied: dict[str, Apply] = {
        key: lambda _: None for key in keys if key.startswith(OF_INGEST_ALONE)
    }
    applied["log.level"] = lambda config: set_level(config.log.level)
    own = Reloading(settings, reread, applied, ours=lambda key: key in applied)

    def reload() -> Sequence[str]:
        is_begun_again = any(key.startswith(OF_INGEST_ALONE) for key in own.again())
        return ["ingest"] if is_begun_again else []

    return reload


def start_api(
    children: Children,
    listener: socket.socket,
    options: Sequence[str] = (),
    *,
    worker: int = 1,
) -> None:
    """Start an api that serves the clients of *listener*; without it there is no service.

    worker   which one of several, from 1
    """
    arguments = ["api", "--listener", str(listener.fileno()), *options]
    if worker > 1:
        arguments += ["--worker", f"{worker}"]
    role = Role(is_vital=True, again=("--again",))
    name = "api" if worker == 1 else f"api-{worker}"
    children.start(name, arguments, role=role, listener=listener)
