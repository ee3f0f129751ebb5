"""`mintscope mcp`: a service as MCP tools, on standard input and output."""

import asyncio
from pathlib import Path
from typing import Annotated, Final

import typer

from mintscope.base.credentials import CredentialKind
from mintscope.shell.cli.output import stop
from mintscope.shell.wiring.mcp.bridging import CannotBridge, run_bridge

EXIT_NO_SERVICE: Final = 1
FILE_BYTES_MAX: Final = 1_000
PAYS: Final = (CredentialKind.CREDIT_TOKEN, CredentialKind.API_KEY)

app = typer.Typer()


@app.command()
def mcp(
    url: Annotated[
        str, typer.Option(metavar="URL", help="URL of the service, as in https://api.example.")
    ],
    credit_token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File that holds a credit token, or an API key; or set CREDIT_TOKEN.",
            show_default=False,
        ),
    ] = None,
    credit_token: Annotated[
        str | None, typer.Option(envvar="CREDIT_TOKEN", hidden=True, help="By environment only.")
    ] = None,
    max_credits: Annotated[
        int | None,
        typer.Option(metavar="N", help="The most that all calls may take.", show_default=False),
    ] = None,
    max_usd: Annotated[
        str | None,
        typer.Option(metavar="USD", help="The most that all payments may be.", show_default=False),
    ] = None,
) -> None:
    """Serve the tools of a service to an MCP client, on standard input and output.

    It ends when its input does.  The service counts what calls take, and refuses those that would
    take more than you allow.
    """
    credential = _credential(credit_token_file, credit_token)
    try:
        asyncio.run(run_bridge(url, credential, max_credits=max_credits, max_usd=max_usd))
    except CannotBridge as cause:
        stop(str(cause), EXIT_NO_SERVICE)


def _credential(file: Path | None, given: str | None) -> str | None:
    if file is not None:
        try:
            given = file.read_text()[:FILE_BYTES_MAX]
        except (OSError, UnicodeDecodeError) as cause:
            raise typer.BadParameter(str(cause), param_hint="--credit-token-file") from None
    text = None if given is None else given.strip()
    if text is not None and not text.startswith(tuple(kind.prefix for kind in PAYS)):
        raise typer.BadParameter(
            "expected svc_credit_<64 hex>, or svc_live_<80 hex>; it holds something else",
            param_hint="--credit-token-file or CREDIT_TOKEN",
        )
    return text
