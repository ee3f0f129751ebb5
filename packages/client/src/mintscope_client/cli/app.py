"""The command line `mintscope` of an installation with only the client."""

import sys
from importlib.metadata import version as version_of

try:
    import typer
except ImportError:
    sys.exit("mintscope: expected the package typer: pip install typer")

from mintscope_client.cli import batch, candles, get, search, watch

app = typer.Typer(
    help="Read analytics of Solana tokens from a mintscope service.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for each in (get, batch, candles, search, watch):
    app.registered_commands += each.app.registered_commands


@app.callback(invoke_without_command=True)
def root(*, version: bool = typer.Option(False, "--version", help="Print the version.")) -> None:  # noqa: FBT003
    """Read analytics of Solana tokens from a mintscope service."""
    if version:
        print(f"mintscope-client {version_of('mintscope-client')}")
        raise typer.Exit


def main() -> None:
    """Run the command `mintscope` of the client."""
    app(prog_name="mintscope")
