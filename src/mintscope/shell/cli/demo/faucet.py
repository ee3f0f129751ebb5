"""`mintscope faucet` and `mintscope faults`: give money or make faults on a running dev chain."""

from decimal import Decimal, InvalidOperation
from typing import Annotated, Final

import httpx
import msgspec
import typer
from solders.pubkey import Pubkey

from mintscope.base.solana import LAMPORTS_PER_SOL
from mintscope.devchain.methods.dev import GIFT_ATOMS_MAX, GIFT_LAMPORTS_MAX
from mintscope.devchain.svm.genesis import PAYMENT_DECIMALS

TIMEOUT_S: Final = 10
ATOMS_PER_TOKEN: Final = 10**PAYMENT_DECIMALS

app = typer.Typer()

Url = Annotated[str, typer.Option(help="URL of the dev chain.", show_default=True)]
DEFAULT_URL: Final = "http://127.0.0.1:8899"


@app.command()
def faucet(
    wallet: Annotated[str, typer.Argument(help="The Solana address of the wallet.")],
    sol: Annotated[str, typer.Option(help="How much SOL.")] = "1",
    tokens: Annotated[str, typer.Option(help="How many payment tokens.")] = "100",
    url: Url = DEFAULT_URL,
) -> None:
    """Give a wallet SOL and payment tokens of a running dev chain."""
    try:
        Pubkey.from_string(wallet)
    except ValueError:
        raise typer.BadParameter(f"expected a Solana address, was {wallet[:50]!r}") from None
    lamports = _units(sol, LAMPORTS_PER_SOL, GIFT_LAMPORTS_MAX, "--sol")
    atoms = _units(tokens, ATOMS_PER_TOKEN, GIFT_ATOMS_MAX, "--tokens")
    print(_call(url, "devchain_faucet", wallet, lamports, atoms))


@app.command()
def faults(
    knobs: Annotated[
        str | None,
        typer.Argument(
            help="""JSON, as in '{"landing": {"kind": "never", "times": 1}}'; '{}': none.""",
            show_default=False,
        ),
    ] = None,
    url: Url = DEFAULT_URL,
) -> None:
    """Show the faults of a running dev chain, or replace them."""
    if knobs is None:
        shown = _call(url, "devchain_getFaults")
    else:
        try:
            wanted = msgspec.json.decode(knobs)
        except msgspec.DecodeError as error:
            raise typer.BadParameter(f"expected JSON: {error}", param_hint="KNOBS") from None
        shown = _call(url, "devchain_setFaults", wanted)
    print(msgspec.json.format(msgspec.json.encode(shown)).decode())


def _units(text: str, per_whole: int, most: int, option: str) -> int:
    """Return *text*, a decimal number of whole units, in the smallest ones."""
    try:
        units = Decimal(text) * per_whole
    except InvalidOperation:
        units = Decimal("NaN")
    if not units.is_finite() or not 0 <= units <= most or units != int(units):
        whole = Decimal(most) / per_whole
        raise typer.BadParameter(
            f"expected a number from 0 to {whole:f}, was {text[:50]!r}", param_hint=option
        )
    return int(units)


def _call(url: str, method: str, *params: object) -> object:
    """Return what the dev chain answers; end with one line where it does not."""
    call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    try:
        answer = httpx.post(url, json=call, timeout=TIMEOUT_S).raise_for_status().json()
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        raise _end(f"no dev chain answers at {url}: {error}") from None
    match answer:
        case {"result": result}:
            return result
        case {"error": {"message": str(message)}}:
            raise _end(f"the dev chain refused: {message}")
        case _:
            raise _end(f"no dev chain answers at {url}: expected JSON-RPC")


def _end(message: str) -> typer.Exit:
    typer.echo(message, err=True)
    return typer.Exit(2)
