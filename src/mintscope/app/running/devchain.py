"""`mintscope devchain`, `faucet` and `faults`: a local Solana with a trading market."""

import asyncio
import gzip
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from decimal import Decimal, DecimalException
from functools import partial
from importlib.util import find_spec
from io import BufferedIOBase
from pathlib import Path
from typing import Annotated, Final

import httpx
import msgspec
import typer
from solders.pubkey import Pubkey

from mintscope.app.cli.output import stop
from mintscope.kit.clock import SystemClock
from mintscope.kit.http.listening import listen
from mintscope.solana.blocks import LAMPORTS_PER_SOL
from mintscope_devchain.blockstore import FINALITY_MS, SLOT_MS
from mintscope_devchain.chain import HISTORY_DAYS_MAX, MINTS_MAX, Devchain, lines
from mintscope_devchain.live import serve
from mintscope_devchain.methods.dev import GIFT_ATOMS_MAX, GIFT_LAMPORTS_MAX
from mintscope_devchain.svm.genesis import PAYMENT_DECIMALS

BLOCKS_MAX = 1_000_000
SPEED_MAX = 100
SLOT_MS_MIN = 10
SLOT_MS_MAX = 10_000
FINALITY_MS_MAX = 60_000
TIMEOUT_S: Final = 10
ATOMS_PER_TOKEN: Final = 10**PAYMENT_DECIMALS

app = typer.Typer()

Url = Annotated[str, typer.Option(metavar="URL", help="URL of the devchain.")]
Host = Annotated[str, typer.Option(metavar="ADDRESS", help="Address to listen on.")]
Port = Annotated[int, typer.Option(metavar="PORT", help="Port to listen on.", min=0, max=65_535)]
Story = Annotated[
    bool,
    typer.Option(
        "--story",
        help=(
            "Tokens launch, leave their bonding curve and imitate others; as much is traded in a"
            " minute now as in the history."
        ),
    ),
]
GrpcPort = Annotated[
    int | None,
    typer.Option(
        metavar="PORT",
        help="Also serve blocks as Yellowstone gRPC on this port.",
        min=1,
        max=65_535,
        show_default=False,
    ),
]
Seed = Annotated[int, typer.Option(metavar="N", help="The same seed makes the same tokens.")]
Mints = Annotated[
    int, typer.Option(metavar="N", help="Number of tokens on the market.", min=1, max=MINTS_MAX)
]
HistoryDays = Annotated[
    float,
    typer.Option(metavar="DAYS", help="Days of blocks before now.", min=0, max=HISTORY_DAYS_MAX),
]
Speed = Annotated[
    float,
    typer.Option(
        metavar="FACTOR",
        help="Speed of the chain: 1 is a slot every --slot-ms.",
        min=0.01,
        max=SPEED_MAX,
    ),
]
SlotMs = Annotated[
    int,
    typer.Option(metavar="MS", help="Milliseconds a slot takes.", min=SLOT_MS_MIN, max=SLOT_MS_MAX),
]
FinalityMs = Annotated[
    int,
    typer.Option(
        metavar="MS",
        help=(
            "Milliseconds from a block to its finality, rounded up to whole slots, two slots at"
            " least; up to 1,000 the chain is on Alpenglow and its blocks hold no votes."
        ),
        min=0,
        max=FINALITY_MS_MAX,
    ),
]
ToFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Write blocks as JSON lines to FILE instead of serving (.gz compresses).",
    ),
]
Blocks = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Number of blocks to write, oldest first; by default all of the history.",
        min=1,
        max=BLOCKS_MAX,
    ),
]
DEFAULT_URL: Final = "http://127.0.0.1:8899"


@app.command()
def devchain(
    host: Host = "127.0.0.1",
    port: Port = 8899,
    seed: Seed = 0,
    mints: Mints = 20,
    history_days: HistoryDays = 10,
    speed: Speed = 1,
    slot_ms: SlotMs = SLOT_MS,
    finality_ms: FinalityMs = FINALITY_MS,
    grpc_port: GrpcPort = None,
    to_file: ToFile = None,
    blocks: Blocks = None,
    *,
    story: Story = False,
) -> None:
    """Serve a simulated Solana over JSON-RPC, or write its blocks to a file."""
    if blocks is not None and to_file is None:
        raise typer.BadParameter("expected --to-file with it", param_hint="--blocks")
    if grpc_port is not None and find_spec("grpc") is None:
        raise typer.BadParameter(
            "expected the extra geyser: install requirements/geyser.txt of mintscope's sources",
            param_hint="--grpc-port",
        )
    clock = SystemClock()
    listener = None if to_file is not None else _listen(host, port)
    make = partial(
        Devchain,
        seed=seed,
        now=clock.now(),
        mints=mints,
        history_days=history_days,
        slot_ms=slot_ms,
        finality_ms=finality_ms,
        has_story=story,
    )
    if listener is not None:
        chain = make()
        where = f"[{host}]" if ":" in host else host
        typer.echo(f"devchain on http://{where}:{listener.getsockname()[1]}", err=True)
        typer.echo(f"payment token {chain.vm.genesis.mint}", err=True)
        slot_s = slot_ms / 1_000 / speed
        stream = None if grpc_port is None else f"{where}:{grpc_port}"
        asyncio.run(serve(chain, clock, listener, slot_s=slot_s, grpc_address=stream))
    elif to_file is not None:
        count = _write(to_file, _lines(make, blocks))
        typer.echo(f"wrote {count} blocks to {to_file}", err=True)


@app.command()
def faucet(
    wallet: Annotated[
        str, typer.Argument(metavar="WALLET", help="The Solana address of the wallet.")
    ],
    sol: Annotated[str, typer.Option(metavar="AMOUNT", help="Amount of SOL.")] = "1",
    tokens: Annotated[
        str, typer.Option(metavar="AMOUNT", help="Amount of payment tokens.")
    ] = "100",
    usdc: Annotated[str, typer.Option(metavar="AMOUNT", help="Amount of USDC.")] = "0",
    url: Url = DEFAULT_URL,
) -> None:
    """Give a wallet SOL, payment tokens and USDC of a running devchain."""
    try:
        Pubkey.from_string(wallet)
    except ValueError:
        raise typer.BadParameter(f"expected a Solana address, was {wallet[:50]!r}") from None
    lamports = _units(sol, LAMPORTS_PER_SOL, GIFT_LAMPORTS_MAX, "--sol")
    atoms = _units(tokens, ATOMS_PER_TOKEN, GIFT_ATOMS_MAX, "--tokens")
    usdc_atoms = _units(usdc, ATOMS_PER_TOKEN, GIFT_ATOMS_MAX, "--usdc")
    print(_call(url, "devchain_faucet", wallet, lamports, atoms, usdc_atoms))


@app.command()
def faults(
    wanted_text: Annotated[
        str | None,
        typer.Argument(
            metavar="FAULTS",
            help="""JSON, as in '{"landing": {"kind": "never", "times": 1}}'; '{}' for none.""",
            show_default=False,
        ),
    ] = None,
    url: Url = DEFAULT_URL,
) -> None:
    """Show the faults of a running devchain, or replace them."""
    if wanted_text is None:
        shown = _call(url, "devchain_getFaults")
    else:
        try:
            wanted = msgspec.json.decode(wanted_text)
        except msgspec.DecodeError as error:
            raise typer.BadParameter(f"expected JSON: {error}", param_hint="FAULTS") from None
        shown = _call(url, "devchain_setFaults", wanted)
    print(msgspec.json.format(msgspec.json.encode(shown)).decode())


def _units(text: str, per_whole: int, most: int, option: str) -> int:
    """Return the number of smallest units in *text*, a decimal number of whole units."""
    try:
        units = Decimal(text) * per_whole
    except DecimalException:  # it is no number, or its exponent is too large
        units = Decimal("NaN")
    if not units.is_finite() or not 0 <= units <= most or units != int(units):
        whole = Decimal(most) / per_whole
        raise typer.BadParameter(
            f"expected a number from 0 to {whole:f}, was {text[:50]!r}", param_hint=option
        )
    return int(units)


def _call(url: str, method: str, *params: object) -> object:
    """Return the result of *method* of the devchain, or end the command with a message."""
    call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    try:
        answer = httpx.post(url, json=call, timeout=TIMEOUT_S).raise_for_status().json()
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        stop(f"no devchain answers at {url}: {error}")
    match answer:
        case {"result": result}:
            pass
        case {"error": {"message": str(message)}}:
            stop(f"the devchain refused: {message}")
        case _:
            stop(f"no devchain answers at {url}: expected JSON-RPC")
    return result


def _listen(host: str, port: int) -> socket.socket:
    try:
        return listen(host, port)
    except OSError as error:
        reason, _, _ = str(error.strerror or error).partition(" (while")
        stop(f"cannot listen on {host} port {port}: {reason}")


def _lines(make: Callable[[], Devchain], blocks: int | None) -> Iterator[bytes]:
    """Yield the first *blocks* blocks of the chain that *make* returns, as lines of JSON.

    blocks   None: all blocks
    """
    chain = make()
    yield from lines(chain, blocks or len(chain.blockstore.slots))


def _write(path: Path, content: Iterable[bytes]) -> int:
    """Write the lines *content* to *path*, completely or not at all; return their number."""
    unfinished = path.with_name(f"{path.name}.part")
    count = 0
    try:
        with ExitStack() as stack:
            file: BufferedIOBase = stack.enter_context(unfinished.open("wb"))
            if path.suffix == ".gz":
                # Without name and time, so that equal blocks make equal files.
                file = stack.enter_context(
                    gzip.GzipFile(fileobj=file, mode="wb", filename="", mtime=0)
                )
            for line in content:
                file.write(line)
                count += 1
        unfinished.replace(path)
    except OSError as error:
        stop(f"cannot write {path}: {error.strerror or error}")
    return count
