"""`mintscope sales`: whether anything is sold, and selling again after a violation."""

import typer

from mintscope.core.payments.store import Budget
from mintscope.shell.cli.config import ConfigFile
from mintscope.shell.cli.stores import with_money
from mintscope.shell.wiring.stores import Money

app = typer.Typer()
sales_commands = typer.Typer(help="Look at sales, and open them again.")
app.add_typer(sales_commands, name="sales")


@sales_commands.command("status")
def sales_status(config: ConfigFile = None) -> None:
    """Say whether sales are open, and how many payments wait for the chain."""

    async def read(money: Money) -> tuple[str | None, int, int | None]:
        count, _ = await money.books.pending()
        return await money.books.why_stopped(), count, await money.books.fund()

    why, count, fund = with_money(config, read)
    if why is not None:
        print(f"stopped: {why}")
    elif fund is not None and fund < Budget().fund_lamports_min:
        print(f"closed: the fee payer has {fund} lamports to promise, and needs more")
    else:
        print("open")
    print(f"{count} payments pending")


@sales_commands.command("resume")
def sales_resume(config: ConfigFile = None) -> None:
    """Sell again; what stopped sales must be understood first, or it stops them again."""
    with_money(config, lambda money: money.books.resume_sales())
    print("open")
