"""`mintscope secrets`: let another secret sign."""

from secrets import token_bytes
from typing import Annotated, Final

import typer

from mintscope.base.clock import SystemClock
from mintscope.base.errors import UnusablePepper
from mintscope.base.time import MINUTE_S, SECOND_MS
from mintscope.core.secrets.roots import ROOT_BYTES, Root
from mintscope.shell.cli.config import ConfigFile, configured
from mintscope.shell.cli.output import stop
from mintscope.shell.wiring.stores import keep_new_root

EXIT_NOT_DONE: Final = 1
MINUTES_MAX: Final = 10_080

app = typer.Typer()
secret_commands = typer.Typer(help="Let another secret sign.", no_args_is_help=True)
app.add_typer(secret_commands, name="secrets")


@secret_commands.command()
def rotate(
    *,
    minutes: Annotated[
        int,
        typer.Option(
            "--in", min=0, max=MINUTES_MAX, metavar="MINUTES", help="When it begins to sign."
        ),
    ] = 0,
    is_printed: Annotated[
        bool, typer.Option("--print", help="Print it, for `credits.roots`; keep it nowhere.")
    ] = False,
    config: ConfigFile = None,
) -> None:
    """Draw a new secret from which quotes and receipts derive; credentials stay good.

    Kept in the file `roots` of data_dir, which a service reads at its start.  With several
    machines: --print, and let it begin once all of them have it.
    """
    since_s = SystemClock().now() // SECOND_MS + minutes * MINUTE_S
    root = Root(since_s, token_bytes(ROOT_BYTES))
    if is_printed:
        typer.echo(str(root))
        return
    try:
        path = keep_new_root(configured(config).config, root)
    except UnusablePepper as error:
        stop(f"mintscope: {error}", EXIT_NOT_DONE)
    typer.echo(
        f"kept in {path}: restart the service. Back the file up with the pepper, which still hashes"
        " every credential. Earlier signatures count for ten minutes more."
    )
