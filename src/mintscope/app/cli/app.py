"""The command `mintscope`: its subcommands, each imported only if it is run."""

import gc
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Annotated, Any, Final, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typing_extensions import override

from mintscope import __version__


def attach(hear: Callable[[bytes], None]) -> None:
    """Call *hear*, in a thread, with each line that the parent process writes to standard input.

    When the input ends, because the parent has ended, the thread sends SIGTERM to this process.
    """

    def watch() -> None:
        # Not sys.stdin: this thread would still hold the lock of sys.stdin when the process ends.
        with open(0, "rb", buffering=0, closefd=False) as lines:
            for line in lines:
                hear(line)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="parent", daemon=True).start()


class Command(NamedTuple):
    """A command of `mintscope`, whose module is imported only if needed."""

    module: str  # relative to mintscope.app, or the full name
    summary: str  # the first paragraph of its help, so that the list of commands imports no module
    reloads: bool = False  # whether SIGHUP makes it read its settings again

    def load(self) -> ModuleType:
        """Import the module, and return it.

        Raises ModuleNotFoundError if a package that the module imports is not installed.
        """
        return import_module(self.module, "mintscope.app")


COMMANDS: Final[Mapping[str, Command]] = {
    "demo": Command(
        ".running.demo", "Run everything on a local Solana with a trading market, until Ctrl-C."
    ),
    "serve": Command(
        ".running.serve",
        "Run ingest and api side by side until Ctrl-C, and restart a process that ends.",
        reloads=True,
    ),
    "ingest": Command(
        ".running.service",
        "Read the chain and write the market; one process per installation.",
        reloads=True,
    ),
    "api": Command(".running.service", "Serve clients: the API and the pages.", reloads=True),
    "mcp": Command(
        ".running.service",
        "Serve the tools of a service to an MCP client, on standard input and output.",
    ),
    "tokens": Command(".cli.tokens", "Track and untrack mints, and show one."),
    "history": Command(".cli.history", "Backfill a token, or import its candles."),
    "export": Command(
        ".cli.tokens",
        "Write the candles of every tracked mint on DAY to files of about a million rows.",
    ),
    "gaps": Command(".cli.chain", "List and fill gaps: slots that no source could deliver."),
    "programs": Command(
        ".cli.chain",
        "List the programs whose swaps are read, including those that the configuration adds.",
    ),
    "credits": Command(".cli.credits", "Issue and show credit tokens."),
    "get": Command(
        "mintscope_client.cli.get",
        "Read price, indicators and pressure of a token from a service: one credit.",
    ),
    "batch": Command(
        "mintscope_client.cli.batch",
        "Read reports of several tokens from a service; each delivered report costs a credit.",
    ),
    "candles": Command(
        "mintscope_client.cli.candles",
        "Read the newest candles of a token from a service: one credit.",
    ),
    "watch": Command(
        "mintscope_client.cli.watch",
        "Print the price and RSI of tokens when they change; each minute costs a credit per token.",
    ),
    "search": Command(
        "mintscope_client.cli.search", "List the tokens that a service tracks: free."
    ),
    "buy": Command(".cli.buy", "Pay a mintscope service from a wallet."),
    "sales": Command(
        ".cli.payments", "Show and resume sales, and settle payments that a restore lost."
    ),
    "payments": Command(".cli.payments", "Find the outcome of a payment, for a customer who asks."),
    "applications": Command(".cli.accounts", "Review applications for access."),
    "users": Command(".cli.accounts", "List accounts, or remove one."),
    "admin": Command(
        ".cli.accounts", "Make administrators, who review applications in the browser."
    ),
    "decode": Command(
        ".cli.chain", "Print one JSON line per swap; quarantined transactions go to stderr."
    ),
    "indicators": Command(
        ".cli.indicators", "Print the indicators of a series of candles as JSON."
    ),
    "report": Command(
        ".cli.indicators",
        "Print price, indicators, pressure and candle counts of a token's swaps as JSON.",
    ),
    "backup": Command(
        ".cli.storage",
        "Copy the installation, which may be running; verify that a copy can be restored.",
    ),
    "restore": Command(
        ".cli.storage", "Copy a backup into an installation that is empty and does not run."
    ),
    "copy": Command(
        ".cli.storage", "Copy a stopped installation to another engine, and compare every row."
    ),
    "compact": Command(
        ".cli.storage", "Rewrite the files of a stopped installation without unused space."
    ),
    "secrets": Command(".cli.table", "Replace the signing secret."),
    "migrate": Command(
        ".cli.storage", "Bring the store to the newest schema, as every process does at its start."
    ),
    "upgrade": Command(
        ".cli.storage", "Upgrade the store to this version, or show the cost of the upgrade."
    ),
    "config": Command(
        ".cli.config", "Print every setting with its value and its origin; secrets are masked."
    ),
    "doctor": Command(
        ".doctor.doctor",
        "Check the installation; exit 1 if something keeps the service from working.",
    ),
    "listing": Command(
        ".doctor.directories",
        "Write the files with which directories list a running service, and print their flaws.",
    ),
    "devchain": Command(
        ".running.devchain",
        "Serve a simulated Solana over JSON-RPC, or write its blocks to a file.",
    ),
    "faucet": Command(
        ".running.devchain", "Give a wallet SOL, payment tokens and USDC of a running devchain."
    ),
    "faults": Command(
        ".running.devchain", "Show the faults of a running devchain, or replace them."
    ),
}


class Commands(TyperGroup):
    """Imports the module of a command only if needed; importing all modules takes a second.

    If a command fails with an error for which `trouble_in_words` has a message, or needs the
    missing package mintscope-devchain, one message is printed on stderr, and the exit code is 1.
    Parameters of its methods have the type Any, because typer does not export their types.
    """

    @override
    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    @override
    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        if COMMANDS[cmd_name].reloads:
            # Until the process handles SIGHUP: imports take a second, and SIGHUP would end it.
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
        try:
            module = COMMANDS[cmd_name].load()
        except ModuleNotFoundError as cause:
            if cause.name != "mintscope_devchain":
                raise
            sys.exit(
                f"mintscope: {cmd_name} needs the package mintscope-devchain, a folder of"
                " mintscope's sources: pip install ./packages/devchain"
            )
        return typer.main.get_group(module.app).commands[cmd_name]

    @override
    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (typer.Exit, BrokenPipeError):  # a regular end, or the output has no reader
            raise
        except typer.BadParameter as error:
            error.message = _message_of(error)
            raise
        except Exception as error:
            from mintscope.app.stores.trouble import trouble_in_words  # noqa: PLC0415 - rare

            words = trouble_in_words(error)
            if words is None:  # a bug: its traceback is needed
                raise
            typer.echo(f"mintscope: {words}", err=True)
            raise typer.Exit(1) from None

    @override
    def format_help(self, ctx: Any, formatter: Any) -> None:
        # Stand-ins with the summaries, because the real commands would import all modules.
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


def _message_of(error: typer.BadParameter) -> str:
    """Return the message of *error*; for an error of pydantic, the expectation and the input."""
    from pydantic import ValidationError  # noqa: PLC0415 - rare, and loads in 0.1 s

    from mintscope.app.config import validation_errors  # noqa: PLC0415 - loads with it

    if not isinstance(error.__cause__, ValidationError):
        return error.message
    details = error.__cause__.errors()[0]
    if details["type"] not in validation_errors.EXPECTATIONS:
        return error.message
    return f"{validation_errors.expectation(details)}; was {details['input']!r:.80}"


app = typer.Typer(
    cls=Commands,
    help="Real-time analytics for any Solana token, sold per request.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",  # joins the lines of a paragraph
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(*, wanted: bool) -> None:
    if wanted:
        from mintscope.app.running.commit import commit  # noqa: PLC0415 - only for this option

        built_from = commit()
        print(f"mintscope {__version__}" + (f" ({built_from})" if built_from else ""))
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
            "--version", callback=_print_version, is_eager=True, help="Print version and commit."
        ),
    ] = False,
) -> None:
    """Before any command runs, attach the process to its parent if requested."""
    if not gc.isenabled():  # by `main`, not in a test that calls a command
        gc.freeze()  # imported objects stay until the end, so no collection needs to look at them
        gc.enable()
    if attached:
        from mintscope.app.running.tracing import Siblings  # noqa: PLC0415 - loads the metrics

        context.obj = siblings = Siblings(has_parent=True)
        attach(siblings.hear)


def main() -> None:
    """Run the command line.

    A crash writes no core file, because a core file would contain the pepper and recent requests.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    gc.disable()  # until the command runs: collections during imports take 0.1 s
    app(prog_name="mintscope")
