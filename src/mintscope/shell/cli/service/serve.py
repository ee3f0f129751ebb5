"""`mintscope serve`: ingest and api side by side, each started again when it ends."""

import socket
from collections.abc import Sequence

import typer

from mintscope.shell.cli.config import ConfigFile, configured
from mintscope.shell.cli.service.children import STOP_TIMEOUT_S, Children, Role
from mintscope.shell.cli.service.running import EXIT_FAILED, ending_in_words, start_logging
from mintscope.shell.wiring.processes.holding import held
from mintscope.shell.wiring.processes.listening import bind

app = typer.Typer()


@app.command()
def serve(config: ConfigFile = None) -> None:
    """Run ingest and api side by side until Ctrl-C; one that ends is started again."""
    loaded = configured(config)
    start_logging(loaded.config.log)
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


def start_api(children: Children, listener: socket.socket, options: Sequence[str] = ()) -> None:
    """Start an api that serves the clients of *listener*; without it there is no service."""
    arguments = ["api", "--listener", str(listener.fileno()), *options]
    role = Role(is_vital=True, again=("--again",))
    children.start("api", arguments, role=role, listener=listener)
