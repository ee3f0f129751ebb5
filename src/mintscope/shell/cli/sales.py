"""`mintscope sales`: look at sales, and resume them after a violation."""

import typer

from mintscope.core.payments.store import Budget
from mintscope.shell.cli.config import ConfigFile, configured
from mintscope.shell.cli.stores import with_money
from mintscope.shell.wiring.stores import Money

app = typer.Typer()
sales_commands = typer.Typer(help="Look at sales, and resume them.", no_args_is_help=True)
app.add_typer(sales_commands, name="sales")


@sales_commands.command("status")
def sales_status(config: ConfigFile = None) -> None:
    """Print whether sales are open, and how many payments are pending."""
    is_enabled = configured(config).config.payments.enabled

    async def read(money: Money) -> tuple[str, int]:
        count, _ = await money.sales_books.pending()
        return await _state(money, is_enabled=is_enabled), count

    state, count = with_money(config, read)
    print(state)
    print(f"{count} payments pending")


@sales_commands.command("resume")
def sales_resume(config: ConfigFile = None) -> None:
    """Resume sales.  Find out first what stopped them, or the next audit stops them again."""
    is_enabled = configured(config).config.payments.enabled

    async def resume(money: Money) -> str:
        await money.sales_books.resume_sales()
        return await _state(money, is_enabled=is_enabled)

    print(with_money(config, resume))


async def _state(money: Money, *, is_enabled: bool) -> str:
    why, fund = await money.sales_books.why_stopped(), await money.sales_books.fund()
    if why is not None:
        return f"stopped: {why}"
    if not is_enabled:
        return "off: payments.enabled is false"
    if fund is not None and fund < Budget().fund_lamports_min:
        return f"closed: the fee payer has {fund} lamports left for fees, and needs more"
    return "open"
