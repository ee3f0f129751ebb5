"""`mintscope sales`: whether anything is sold, and selling again after a violation."""

import asyncio

import typer

from mintscope.core.payments.store import Budget
from mintscope.shell.cli.config import ConfigFile, configured
from mintscope.shell.wiring.wiring import payment_books

app = typer.Typer()
sales_commands = typer.Typer(help="Look at sales, and open them again.")
app.add_typer(sales_commands, name="sales")


@sales_commands.command("status")
def sales_status(config: ConfigFile = None) -> None:
    """Say whether sales are open, and how many payments wait for the chain."""
    with payment_books(configured(config).config) as books:
        why = asyncio.run(books.why_stopped())
        count, _ = asyncio.run(books.pending())
        fund = asyncio.run(books.fund())
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
    with payment_books(configured(config).config) as books:
        asyncio.run(books.resume_sales())
    print("open")
