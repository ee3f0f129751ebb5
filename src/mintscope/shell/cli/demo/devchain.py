"""`mintscope devchain`: a local Solana whose market trades, or a file of its blocks."""

import asyncio
import gzip
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from mintscope.base.clock import SystemClock
from mintscope.devchain.chain import HISTORY_DAYS_MAX, MINTS_MAX, SLOT_MS, Devchain, lines
from mintscope.devchain.live import serve

BLOCKS_MAX = 1_000_000
SPEED_MAX = 100

app = typer.Typer()


@app.command()
def devchain(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.", min=0, max=65_535)] = 8899,
    seed: Annotated[int, typer.Option(help="The same seed makes the same tokens.")] = 0,
    mints: Annotated[int, typer.Option(help="Tokens on the market.", min=1, max=MINTS_MAX)] = 20,
    history_days: Annotated[
        float, typer.Option(help="Days of blocks before now.", min=0, max=HISTORY_DAYS_MAX)
    ] = 10,
    speed: Annotated[
        float, typer.Option(help=f"1 is a block every {SLOT_MS} ms.", min=0.01, max=SPEED_MAX)
    ] = 1,
    to_file: Annotated[
        Path | None,
        typer.Option(help="Write getBlock JSON lines here instead of serving (.gz compresses)."),
    ] = None,
    blocks: Annotated[
        int | None,
        typer.Option(
            help="Lines to write, oldest first; by default all of the history.",
            min=1,
            max=BLOCKS_MAX,
        ),
    ] = None,
) -> None:
    """Serve a simulated Solana over JSON-RPC, or write its blocks to a file."""
    if blocks is not None and to_file is None:
        raise typer.BadParameter("expected --to-file with it", param_hint="--blocks")
    clock = SystemClock()
    listener = None if to_file is not None else _listen(host, port)
    chain = Devchain(seed=seed, now=clock.now(), mints=mints, history_days=history_days)
    if listener is not None:
        where = f"[{host}]" if ":" in host else host
        _tell(f"devchain on http://{where}:{listener.getsockname()[1]}")
        _tell(f"payment token {chain.vm.genesis.mint}")
        asyncio.run(serve(chain, clock, listener, slot_s=SLOT_MS / 1_000 / speed))
    elif to_file is not None:
        count = blocks or len(chain.blockstore.slots)
        _write(to_file, lines(chain, count))
        _tell(f"wrote {count} blocks to {to_file}")


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family)
    except OSError as error:
        reason, _, _ = str(error.strerror or error).partition(" (while")
        _tell(f"cannot listen on {host} port {port}: {reason}")
        raise typer.Exit(2) from None
    # Inherited by what it accepts; asyncio sets it only for sockets that name their protocol.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def _write(path: Path, content: Iterable[bytes]) -> None:
    """Write all of *content* or nothing."""
    unfinished = path.with_name(f"{path.name}.part")
    try:
        with unfinished.open("wb") as plain:
            if path.suffix == ".gz":
                with gzip.GzipFile(fileobj=plain, mode="wb", filename="", mtime=0) as packed:
                    packed.writelines(content)
            else:
                plain.writelines(content)
        unfinished.replace(path)
    except OSError as error:
        _tell(f"cannot write {path}: {error.strerror or error}")
        raise typer.Exit(2) from None


def _tell(message: str) -> None:
    typer.echo(message, err=True)
