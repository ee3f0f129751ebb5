"""`mintscope mcp`: a service as MCP tools, on standard input and output."""

import asyncio
from pathlib import Path
from typing import Annotated, Final

import typer

from mintscope.base.credentials import CredentialKind
from mintscope.client.cli.connection import (
    CREDENTIAL_VARIABLE,
    CredentialFile,
    Url,
    credential_of,
)
from mintscope.shell.cli.output import stop
from mintscope.shell.wiring.mcp.bridging import CannotBridge, run_bridge

EXIT_NO_SERVICE: Final = 1
PAYS: Final = (CredentialKind.CREDIT_TOKEN, CredentialKind.API_KEY)

app = typer.Typer()


@app.command()
def mcp(
    url: Url,
    credential_file: CredentialFile = None,
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
    credential = _credential(credential_file)
    try:
        asyncio.run(run_bridge(url, credential, max_credits=max_credits, max_usd=max_usd))
    except CannotBridge as cause:
        stop(str(cause), EXIT_NO_SERVICE)


def _credential(file: Path | None) -> str | None:
    try:
        text = credential_of(file)
    except ValueError as flaw:
        raise typer.BadParameter(str(flaw), param_hint="--credential-file") from None
    if text is not None and not text.startswith(tuple(kind.prefix for kind in PAYS)):
        raise typer.BadParameter(
            "expected svc_credit_<64 hex>, or svc_live_<80 hex>; it holds something else",
            param_hint=f"--credential-file or {CREDENTIAL_VARIABLE}",
        )
    return text
