"""The command line: every command, and the options of all."""

import gc
import resource
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typing_extensions import override

from mintscope import __version__
from mintscope.shell.cli.commands import COMMANDS
from mintscope.shell.cli.service.parent import attach


class _Commands(TyperGroup):
    """Imports the module of a command when it is called: all of them take a second.

    Typed with Any where typer has types that it does not publish.
    """

    @override
    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    @override
    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        module = import_module(COMMANDS[cmd_name].path)
        return typer.main.get_group(module.app).commands[cmd_name]

    @override
    def format_help(self, ctx: Any, formatter: Any) -> None:
        listed = {name: TyperCommand(name, help=each.summary) for name, each in COMMANDS.items()}
        shown = TyperGroup(
            name=self.name,
            commands=dict(listed),
            help=self.help,
            params=self.params,
            rich_markup_mode=self.rich_markup_mode,
            context_settings=self.context_settings,
        )
        shown.format_help(ctx, formatter)


app = typer.Typer(
    cls=_Commands,
    help="Real-time analytics for any Solana token, sold per request.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",  # joins the lines of a paragraph
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(*, wanted: bool) -> None:
    if wanted:
        from mintscope.shell.wiring.processes.build import commit  # noqa: PLC0415 - loads msgspec

        built_from = commit()
        print(
            f"mintscope {__version__} ({built_from})" if built_from else f"mintscope {__version__}"
        )
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
            "--version",
            callback=_print_version,
            is_eager=True,
            help="Print version and commit.",
        ),
    ] = False,
) -> None:
    """Set up what every command needs."""
    gc.enable()
    if attached:
        from mintscope.shell.wiring.processes.siblings import (  # noqa: PLC0415 - loads the metrics
            Siblings,
        )

        context.obj = siblings = Siblings(has_parent=True)
        attach(siblings.hear)


def main() -> None:
    """Run the command line.

    A crash leaves no core file: it would hold the pepper and what clients have just sent.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    gc.disable()  # until the command runs: to look for garbage while modules load takes 0.1 s
    app(prog_name="mintscope")
