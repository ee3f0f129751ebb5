"""The command line: every command, and the options of all."""

import resource
from typing import Annotated

import typer

from mintscope import __version__
from mintscope.shell.cli import buy, config, decode, gaps, indicators, sales, tokens
from mintscope.shell.cli import credits as credit_tokens
from mintscope.shell.cli.accounts import applications, users
from mintscope.shell.cli.demo import demo, devchain
from mintscope.shell.cli.doctor import doctor
from mintscope.shell.cli.service import serve
from mintscope.shell.cli.service.children import attach
from mintscope.shell.wiring.siblings import Siblings

app = typer.Typer(
    help="Real-time analytics for any Solana token, sold per request.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",  # joins the lines of a paragraph
    context_settings={"help_option_names": ["-h", "--help"]},
)
for noun in (
    demo,
    serve,
    tokens,
    gaps,
    credit_tokens,
    buy,
    sales,
    applications,
    users,
    decode,
    indicators,
    config,
    doctor,
    devchain,
):
    app.add_typer(noun.app)


def _print_version(*, wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit


@app.callback()
def root(
    context: typer.Context,
    *,
    attached: Annotated[
        bool, typer.Option("--attached", hidden=True, help="End when standard input is closed.")
    ] = False,
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Set up what every command needs."""
    context.obj = siblings = Siblings(has_parent=attached)
    if attached:
        attach(siblings.hear)


def main() -> None:
    """Run the command line.

    A crash leaves no core file: it would hold the pepper and what clients have just sent.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    app(prog_name="mintscope")
