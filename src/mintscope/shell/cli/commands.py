"""Each command, in the order of `mintscope --help`, and the module that is imported to run it."""

from collections.abc import Mapping
from typing import Final, NamedTuple


class Command(NamedTuple):
    """A command.

    module    where it is, below shell/cli; "client.cli.get" is mintscope.client.cli.get
    summary   the first sentence of its help, so that a list of all commands imports none
    """

    module: str
    summary: str

    @property
    def path(self) -> str:
        """The whole name of the module."""
        of_client = self.module.startswith("client.")
        return f"mintscope.{self.module}" if of_client else f"mintscope.shell.cli.{self.module}"


COMMANDS: Final[Mapping[str, Command]] = {
    "demo": Command(
        "demo.demo", "Run everything on a local Solana whose market trades, until Ctrl-C."
    ),
    "serve": Command(
        "service.serve",
        "Run ingest and api side by side until Ctrl-C; one that ends is started again.",
    ),
    "ingest": Command(
        "service.ingest", "Read the chain and write the market; one process per installation."
    ),
    "api": Command("service.api", "Serve clients: the API and the pages."),
    "mcp": Command(
        "service.mcp",
        "Serve the tools of a service to an MCP client, on standard input and output.",
    ),
    "tokens": Command("tokens", "Choose which mints are tracked, and look at one."),
    "history": Command("history.imports", "Give a mint its past."),
    "gaps": Command("chain.gaps", "Which slots no source could deliver."),
    "programs": Command(
        "chain.programs",
        "List the programs whose swaps are read, those that the configuration adds among them.",
    ),
    "credits": Command("credits", "Issue credit tokens, and look at them."),
    "get": Command(
        "client.cli.get",
        "Read price, indicators and pressure of a token from a service: one credit.",
    ),
    "batch": Command(
        "client.cli.batch",
        "Read the reports of several tokens from a service: a credit for each that is delivered.",
    ),
    "candles": Command(
        "client.cli.candles", "Read the newest candles of a token from a service: one credit."
    ),
    "watch": Command(
        "client.cli.watch",
        "Print the price and RSI of tokens as they change: a credit a token and started minute.",
    ),
    "search": Command("client.cli.search", "List the tokens that a service follows: free."),
    "buy": Command("buy", "Pay a mintscope service from a wallet."),
    "sales": Command(
        "sales", "Look at sales, resume them, and settle payments that a restore lost."
    ),
    "payments": Command("payments", "Find the outcome of a payment, for a customer who asks."),
    "applications": Command("accounts.applications", "Review applications for access."),
    "users": Command("accounts.users", "List accounts, and remove one."),
    "admin": Command(
        "accounts.users", "Make administrators, who review applications in the browser."
    ),
    "decode": Command(
        "chain.decode", "Print one JSON line per swap; quarantined transactions go to stderr."
    ),
    "indicators": Command("indicators", "Print the indicators of a series of candles as JSON."),
    "report": Command(
        "indicators",
        "Print price, indicators, pressure and candle counts of a token's swaps as JSON.",
    ),
    "backup": Command(
        "storage.backup",
        "Copy the installation, which may be running; verify that a copy can be restored.",
    ),
    "restore": Command(
        "storage.copies", "Copy a backup into an installation that is empty and does not run."
    ),
    "copy": Command(
        "storage.copies",
        "Copy a stopped installation to another engine, and compare every row.",
    ),
    "compact": Command(
        "storage.compact",
        "Rewrite the files of a stopped installation as small as they can be.",
    ),
    "secrets": Command("secrets", "Let another secret sign."),
    "migrate": Command(
        "storage.copies",
        "Bring the store to the newest schema, as every process does at its start.",
    ),
    "upgrade": Command(
        "storage.upgrade", "Upgrade the store to this version, or show what the upgrade takes."
    ),
    "config": Command(
        "config", "Print every setting with its value and its origin; secrets are masked."
    ),
    "doctor": Command(
        "doctor.doctor",
        "Check the installation; exit 1 if something keeps the service from working.",
    ),
    "listing": Command(
        "directories.listing",
        "Write the files by which directories list a running service, and say what they would"
        " refuse.",
    ),
    "devchain": Command(
        "demo.devchain", "Serve a simulated Solana over JSON-RPC, or write its blocks to a file."
    ),
    "faucet": Command(
        "demo.devchain", "Give a wallet SOL, payment tokens and USDC of a running devchain."
    ),
    "faults": Command("demo.devchain", "Show the faults of a running devchain, or replace them."),
}
