"""`mintscope listing`: the files by which directories list a service."""

from contextlib import closing
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import urlsplit

import httpx
import typer

from mintscope.shell.cli.config import ConfigFile, configured
from mintscope.shell.cli.directories.papers import (
    name_of,
    namespace_of,
    owner_of,
    slug_of,
    write_pay,
    write_server,
)
from mintscope.shell.cli.directories.surfaces import ICON, MCP, OPENAPI, Expected, look
from mintscope.shell.cli.directories.visitor import ServiceSilent, Visitor
from mintscope.shell.cli.output import stop

EXIT_NOT_DONE: Final = 1
NO_ORIGIN: Final = "expected the https address of a running service: --url, or api.origin"

app = typer.Typer()


@app.command()
def listing(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Where the files go; made if need be.")
    ],
    *,
    url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="The service, as clients reach it; else api.origin."),
    ] = None,
    operator: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The operator, for pay.sh; by default its domain name."),
    ] = None,
    namespace: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Of the MCP registry, which you can prove; by default its host name backwards.",
        ),
    ] = None,
    config: ConfigFile = None,
) -> None:
    """Write the files by which directories list a running service, and say what they would refuse.

    FOLDER/providers/OPERATOR/NAME is for a pull request to pay.sh, FOLDER/server.json for the
    publisher of the MCP registry.
    """
    origin = (url or configured(config).config.api.origin or "").rstrip("/")
    host = urlsplit(origin).hostname
    if not origin.startswith(("https://", "http://")) or host is None:
        stop(NO_ORIGIN)
    try:
        with closing(Visitor(origin)) as visitor:
            provider = folder / "providers" / slug_of(operator or owner_of(host))
            write_files(visitor, folder, provider, namespace or namespace_of(host))
            for finding in look(visitor, Expected()):
                typer.echo(finding)
    except ServiceSilent as error:
        stop(f"{origin} does not answer: {error}", EXIT_NOT_DONE)


def write_files(visitor: Visitor, folder: Path, provider: Path, namespace: str) -> None:
    """Write what the service says of itself in the forms of directories.  Raises ServiceSilent."""
    described = visitor.document(OPENAPI)
    if "paths" not in described:
        stop(f"expected the description of a mintscope at {visitor.origin}{OPENAPI}", EXIT_NOT_DONE)
    files = {
        provider / name_of(described) / "PAY.md": write_pay(visitor.origin, described),
        provider / name_of(described) / "openapi.json": visitor.ask(OPENAPI).text,
    }
    if visitor.ask(MCP).status_code != httpx.codes.NOT_FOUND:
        has_icon = visitor.ask(ICON).status_code == httpx.codes.OK
        icon = visitor.origin + ICON if has_icon else None
        server = write_server(visitor.origin, described, namespace, icon)
        files[folder / "server.json"] = server
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        typer.echo(path)
