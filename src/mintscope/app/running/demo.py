"""`mintscope demo`: the whole service on a simulated market."""

import asyncio
import fcntl
import os
import secrets
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from base64 import b64decode
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Final

import httpx
import typer
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from x402.http.utils import decode_payment_required_header
from x402.schemas import PaymentRequired, SettleResponse

from mintscope.app.cli.output import stop
from mintscope.app.config.config import ApiConfig
from mintscope.app.config.load import child_environment
from mintscope.app.running.logging import configure_logging
from mintscope.app.running.processes import bind
from mintscope.app.running.serve import ChildEnded, Children, Role, start_api
from mintscope.kit.primitives import Mint, Wallet
from mintscope.payments.protocol.envelope import MAINNET
from mintscope.payments.protocol.headers import PAYMENT_REQUIRED, PAYMENT_RESPONSE
from mintscope.solana.blocks import WSOL
from mintscope_client.auth import PaymentAuth
from mintscope_client.wallet import PayerWallet, Pin, SpendLimit
from mintscope_devchain.market.world import World
from mintscope_devchain.svm.genesis import PAYMENT_DECIMALS, PAYMENT_SYMBOL, Genesis

# The demo's buyer: an agent with a wallet and without an account.
#
# It pays with the official x402 client if that is installed, as it is under `make demo`; otherwise
# with `mintscope_client`.  The buyer makes no payment with code of the seller.

TIMEOUT_S: Final = 60.0
LOOK_S: Final = 0.1
LOOKS_MAX: Final = 300
PRICE_LOOK_S: Final = 1.0
PRICE_LOOKS_MAX: Final = 15  # half of the requests that a client may send in a minute
LAMPORTS: Final = 10**9
ATOMS: Final = 1_000 * 10**PAYMENT_DECIMALS
USDC_ATOMS: Final = 10**6
ATOMS_PER_PAYMENT: Final = 10 * 10**PAYMENT_DECIMALS
BUNDLE: Final = 10
OFFICIAL: Final = find_spec("solana") is not None  # the official client cannot pay without it


class DemoFailed(Exception):
    """The demo did not run as expected; the message has the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuyerTask:
    """The settings of a demo buyer.

    origin    the address of the seller
    rpc_url   the address of the devchain
    genesis   the keys and the mints of the devchain
    paid_in   the mint that the buyer pays with; None: the payment token
    """

    origin: str
    rpc_url: str
    genesis: Genesis
    paid_in: Pubkey | None = None

    @property
    def asset(self) -> Pubkey:
        """The mint of the token in which the buyer pays; by default, the devchain's own."""
        return self.paid_in or self.genesis.mint

    @property
    def wallet(self) -> Keypair:
        """The buyer's key; the faucet gives its wallet 1 SOL, 1,000 payment tokens and 1 USDC."""
        return self.genesis.key("buyer")


def buy(task: BuyerTask) -> None:
    """Request a report, buy it, buy credits and spend them; print each step.

    Raises DemoFailed, HTTPError.
    """
    _fund(task)
    with warnings.catch_warnings():
        # The official client uses deprecated functions of its Solana library.
        warnings.simplefilter("ignore")
        asyncio.run(_buy(task))


async def _buy(task: BuyerTask) -> None:
    who = f"the official x402 client, x402 {version('x402')}" if OFFICIAL else "mintscope_client"
    typer.echo(f"\nA buyer with a wallet and no account, paying by {who}:\n")
    path = f"/v1/token/{WSOL}"
    async with httpx.AsyncClient(base_url=task.origin, timeout=TIMEOUT_S) as http:
        await _expect_price(http, task.asset)
        _tell_demand(path, await http.get(path))
        async with _paying(task) as paying:
            _tell_report(path, await paying.get(path))
            token = _tell_purchase(await paying.post(f"/v1/credits/purchase?bundle={BUNDLE}"))
        async with _paying(replace(task, paid_in=task.genesis.usdc)) as paying:
            _tell_report(path, await paying.get(path), "in USDC")
        bearer = {"Authorization": f"Bearer {token}"}
        left = [_left(await http.get(path, headers=bearer)) for _ in range(BUNDLE)]
        typer.echo(f"  GET the same {BUNDLE} times with the token\n    200, credits left: {left}")
        empty = await http.get(path, headers=bearer)
        _expect(empty, httpx.codes.PAYMENT_REQUIRED, "INSUFFICIENT_CREDITS")
        typer.echo("  GET it once more\n    402 INSUFFICIENT_CREDITS")


async def _expect_price(http: httpx.AsyncClient, asset: Pubkey) -> None:
    """Wait until the payment token *asset* has a price; USDC always has one.

    Raises DemoFailed if the token has no price after PRICE_LOOKS_MAX requests; HTTPError.
    """
    for _ in range(PRICE_LOOKS_MAX):
        answer = await http.get("/v1/credits/bundles")
        if answer.is_success and answer.json()["data"]["currency"]["asset"] == str(asset):
            return
        await asyncio.sleep(PRICE_LOOK_S)
    raise DemoFailed(f"{asset} has no price: {answer.text:.300}")


def _fund(task: BuyerTask) -> None:
    """Request money for the buyer from the faucet, and wait until the tokens arrive.

    Raises DemoFailed if the devchain refuses a request or the tokens do not arrive; HTTPError.
    """
    give(task.rpc_url, task.wallet.pubkey(), USDC_ATOMS)
    tokens = str(task.genesis.tokens_of(task.wallet.pubkey()))
    confirmed = {"commitment": "confirmed", "encoding": "base64"}
    for _ in range(LOOKS_MAX):
        if _call(task.rpc_url, "getAccountInfo", tokens, confirmed)["value"] is not None:
            return
        time.sleep(LOOK_S)
    raise DemoFailed("the faucet's gift did not arrive")


def give(rpc_url: str, wallet: Pubkey, usdc_atoms: int) -> None:
    """Give *wallet* 1 SOL, 1,000 payment tokens, and *usdc_atoms* millionths of 1 USDC.

    Raises DemoFailed if the devchain refuses the request; HTTPError.
    """
    _call(rpc_url, "devchain_faucet", str(wallet), LAMPORTS, ATOMS, usdc_atoms)


def _call(url: str, method: str, *params: object) -> Any:
    call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    answer = httpx.post(url, json=call, timeout=TIMEOUT_S).json()
    if "result" not in answer:
        raise DemoFailed(f"{method}: {answer}")
    return answer["result"]


@asynccontextmanager
async def _paying(task: BuyerTask) -> AsyncIterator[httpx.AsyncClient]:
    """Yield an HTTP client that pays when a response is a 402, within limits."""
    if OFFICIAL:
        async with _official(task) as client:
            yield client
        return
    pin = Pin(
        network=MAINNET,
        asset=Mint(str(task.asset)),
        decimals=PAYMENT_DECIMALS,
        pay_to=Wallet(str(task.genesis.treasury.pubkey())),
    )
    wallet = PayerWallet(
        keypair=task.wallet,
        pin=pin,
        limit=SpendLimit(atoms_per_payment=ATOMS_PER_PAYMENT, atoms_in_all=ATOMS),
    )
    auth = PaymentAuth(wallet, rpc_url=task.rpc_url)
    async with httpx.AsyncClient(base_url=task.origin, timeout=TIMEOUT_S, auth=auth) as client:
        yield client


def _official(task: BuyerTask) -> httpx.AsyncClient:
    """Return the official client; it pays only in the token of *task*, within a limit."""
    # The service itself does not need these packages.
    from x402 import x402Client  # noqa: PLC0415
    from x402.client_base import SpendControlAsset  # noqa: PLC0415
    from x402.http.clients.httpx import x402HttpxClient  # noqa: PLC0415
    from x402.mechanisms.svm.exact.register import register_exact_svm_client  # noqa: PLC0415
    from x402.mechanisms.svm.signers import KeypairSigner  # noqa: PLC0415

    client = x402Client()
    register_exact_svm_client(client, KeypairSigner(task.wallet), rpc_url=task.rpc_url)
    asset = SpendControlAsset(
        network=MAINNET, asset=str(task.asset), max_amount_per_payment=str(ATOMS_PER_PAYMENT)
    )
    client.set_spend_controls({"allowed_assets": [asset]})
    return x402HttpxClient(client, base_url=task.origin, timeout=TIMEOUT_S)


def _tell_demand(path: str, answer: httpx.Response) -> None:
    _expect(answer, httpx.codes.PAYMENT_REQUIRED, "PAYMENT_REQUIRED")
    if PAYMENT_REQUIRED not in answer.headers:
        raise DemoFailed(f"expected {PAYMENT_REQUIRED}; was {answer.text:.300}")
    required = decode_payment_required_header(answer.headers[PAYMENT_REQUIRED])
    if not isinstance(required, PaymentRequired):
        raise DemoFailed("expected x402 version 2")
    offer, *_ = required.accepts
    typer.echo(f"  GET {path}\n    402 PAYMENT_REQUIRED, and PAYMENT-REQUIRED says")
    for name, value in {
        "amount": f"{offer.amount} atoms, {_tokens(int(offer.amount))}",
        "asset": offer.asset,
        "payTo": offer.pay_to,
        "network": offer.network,
        "feePayer": f"{offer.extra['feePayer']} (the seller pays the network fee)",
        "memo": f"{offer.extra['memo']} (the quote, good for two minutes)",
    }.items():
        typer.echo(f"      {name:9} {value}")


def _tell_report(path: str, answer: httpx.Response, how: str = "") -> None:
    _expect(answer, httpx.codes.OK)
    price = answer.json()["data"]["price"]["usd"]
    paid = f"paid {how}".strip()
    typer.echo(
        f"  GET {path}, {paid}\n    200, price {price:.2f} USD, settled by {_receipt(answer)}"
    )


def _tell_purchase(answer: httpx.Response) -> str:
    _expect(answer, httpx.codes.CREATED)
    bought = answer.json()["data"]
    typer.echo(
        f"  POST /v1/credits/purchase?bundle={BUNDLE}, paid\n    201, {bought['credits']} credits"
        f" for {_tokens(bought['pricePaid'])}, settled by {_receipt(answer)}"
    )
    return str(bought["token"])


def _left(answer: httpx.Response) -> int:
    _expect(answer, httpx.codes.OK)
    return int(answer.headers["X-Credits-Remaining"])


def _receipt(answer: httpx.Response) -> str:
    receipt = b64decode(answer.headers[PAYMENT_RESPONSE])
    return SettleResponse.model_validate_json(receipt).transaction


def _tokens(atoms: int) -> str:
    return f"{atoms / 10**PAYMENT_DECIMALS:g} {PAYMENT_SYMBOL}"


def _expect(answer: httpx.Response, status: int, code: str = "") -> None:
    if answer.status_code != status or (code and answer.json()["error"]["code"] != code):
        raise DemoFailed(f"expected {status} {code}; was {answer.status_code} {answer.text:.300}")


PREFIX: Final = "mintscope-demo-"


@contextmanager
def demo_folder() -> Iterator[Path]:
    """Yield a new folder for the block; remove folders that killed demos have left.

    A demo holds a lock on its folder; the kernel releases the lock even if the demo is killed.
    """
    for left in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        _remove_if_left(left)
    folder, lock = _locked_folder()
    try:
        with folder:
            yield Path(folder.name)
    finally:
        # Only after the folder is removed: its lock shows other demos that it is in use.
        os.close(lock)


def _locked_folder() -> tuple[tempfile.TemporaryDirectory[str], int]:
    """Return a new folder and the descriptor that holds its lock.

    Before the new folder is locked, another demo that starts may remove it, because it seems to be
    left by a killed demo.  In this case, create another folder.
    """
    while True:
        folder = tempfile.TemporaryDirectory(prefix=PREFIX)
        with suppress(FileNotFoundError):
            lock = os.open(folder.name, os.O_RDONLY | os.O_DIRECTORY)
            fcntl.flock(lock, fcntl.LOCK_EX)
            if _is_at(folder.name, lock):
                return folder, lock
            os.close(lock)
        folder.cleanup()


def _is_at(path: str, descriptor: int) -> bool:
    """Return whether *path* still refers to the file that *descriptor* refers to."""
    try:
        return os.path.samestat(Path(path).stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _remove_if_left(folder: Path) -> None:
    """Remove *folder* if it belongs to this user and no demo holds its lock."""
    try:
        # O_NOFOLLOW: in a shared folder for temporary files, another user could add a symbolic link
        # that leads to a folder of this user.
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return  # it is gone, is no folder, or is closed to this user
    try:
        if os.fstat(descriptor).st_uid == os.getuid():
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
    except BlockingIOError:
        pass  # a running demo uses the folder
    finally:
        os.close(descriptor)


SEED: Final = 0
MINTS: Final = 20
CREDITS: Final = 100
HISTORY_DAYS_MIN: Final = 0.2  # enough for all m1 indicators of a report
HISTORY_DAYS: Final = 10  # enough for 200 candles in each timeframe
READY_TIMEOUT_S: Final = 180.0  # a demo is usually ready within seconds, but not on a busy machine
POLL_S: Final = 0.1
HOST: Final = "127.0.0.1"
ADMINISTRATOR: Final = "admin@example.org"
PASSWORD_BYTES: Final = 12
WALLET_OFFERED: Final = "A wallet is in every browser that opens {}/pricing: buy with it.\n\n"
AGENT: Final = "mintscope_client.examples.agent_signup"

app = typer.Typer()


@app.command()
def demo(
    port: Annotated[
        int | None,
        typer.Option(
            metavar="PORT",
            help=f"Port of the API; by default {ApiConfig().port}, or any free one.",
            min=1,
            max=65_535,
            show_default=False,
        ),
    ] = None,
    *,
    history_days: Annotated[
        float,
        typer.Option(
            metavar="DAYS",
            help="Days of blocks before now: fewer start sooner, with fewer candles of an hour.",
            min=HISTORY_DAYS_MIN,
            max=HISTORY_DAYS,
        ),
    ] = HISTORY_DAYS,
    grpc: Annotated[
        bool, typer.Option("--grpc", help="Read blocks from the chain's gRPC stream.")
    ] = False,
    wallet: Annotated[
        bool,
        typer.Option(
            "--wallet",
            help="Offer every browser a wallet with money of this chain, to try buying.",
        ),
    ] = False,
) -> None:
    """Run everything on a local Solana with a trading market, until Ctrl-C.

    A buyer with a wallet pays for a report and for credits, and prints each step.
    """
    configure_logging("warning", json_lines=False)
    try:
        with _listener(port) as listener, demo_folder() as folder:
            _run(folder, listener, history_days, streams=grpc, has_wallet=wallet)
    except (ChildEnded, DemoFailed, OSError) as error:
        stop(f"mintscope: {error}", 1)


def _run(
    folder: Path, listener: socket.socket, history_days: float, *, streams: bool, has_wallet: bool
) -> None:
    world = World(seed=SEED, mints=MINTS, has_story=True)
    genesis = Genesis(SEED)
    visitor = genesis.key("visitor")
    traded = {each.token.symbol: each.token.mint for each in world.listed}
    chain_port, grpc_port = _free_ports(2)
    api_port = int(listener.getsockname()[1])
    origin = f"http://{HOST}:{api_port}"
    rpc_url = f"http://{HOST}:{chain_port}"
    settings = {
        "MINTSCOPE_DATA_DIR": str(folder),
        "MINTSCOPE_CHAIN__RPC_URL": rpc_url,
        "MINTSCOPE_API__PORT": str(api_port),
        "MINTSCOPE_MARKET__MINTS": ",".join(traded.values()),
        **_settings(genesis, world),
    }
    if streams:
        settings["MINTSCOPE_CHAIN__SOURCE"] = "geyser"
        settings["MINTSCOPE_GEYSER__URLS"] = f"http://{HOST}:{grpc_port}"
    if has_wallet:
        settings["MINTSCOPE_WEB__DEMO_WALLET_SEED"] = visitor.secret().hex()
    environment = child_environment(settings)
    # One client: each new one reads the certificates of all authorities.
    with httpx.Client(timeout=2) as http, Children(environment) as children:
        typer.echo(f"starting a local Solana with {history_days:g} days of history ...", err=True)
        arguments = ["devchain", "--port", str(chain_port), "--history-days", str(history_days)]
        arguments.append("--story")
        arguments += ["--grpc-port", str(grpc_port)] if streams else []
        children.start("devchain", arguments, role=Role(has_memory=True, is_vital=True))
        _until(children, lambda: _answers(http, f"{rpc_url}/health"))
        children.start("ingest", ["ingest"])
        start_api(children, listener)
        issued = _command(environment, "credits", "issue", str(CREDITS), "--note", "demo")
        credit_token = issued.strip()
        password = secrets.token_urlsafe(PASSWORD_BYTES)
        _command(environment, "admin", "create", ADMINISTRATOR, typed=f"{password}\n")
        _until(children, lambda: _is_ready(http, origin, credit_token))
        if not children.stopping:
            try:
                if has_wallet:
                    give(rpc_url, visitor.pubkey(), 100 * USDC_ATOMS)
                buy(BuyerTask(origin=origin, rpc_url=rpc_url, genesis=genesis))
            except (DemoFailed, httpx.HTTPError, TimeoutError) as trouble:
                typer.echo(f"the buyer gave up: {type(trouble).__name__}: {trouble}", err=True)
            _invite(origin, rpc_url, credit_token, password, folder, traded, has_wallet=has_wallet)
            sys.stdout.flush()
        children.wait()
        listener.close()


def _settings(genesis: Genesis, world: World) -> dict[str, str]:
    """Return the settings of a demo's service, which sells for the devchain's token."""
    (token,) = (each for each in world.listed if each.token.symbol == PAYMENT_SYMBOL)
    pools = ",".join(f"{pool.base_vault}:{pool.quote_vault}" for pool in token.pools)
    return {
        "MINTSCOPE_CHAIN__START": "first",
        "MINTSCOPE_MAIL__DELIVERY": "page",
        "MINTSCOPE_SIGNALS__WEBHOOK_LOOPBACK": "true",
        "MINTSCOPE_ACCOUNTS__SIGNUP_LIMIT_REQUESTS": "100",
        "MINTSCOPE_METRICS__ENABLED": "false",
        "MINTSCOPE_LOG__LEVEL": "warning",
        "MINTSCOPE_PAYMENTS__ENABLED": "true",
        "MINTSCOPE_PAYMENTS__ASSET": str(genesis.mint),
        "MINTSCOPE_PAYMENTS__ASSET_NAME": "the devchain's token",
        "MINTSCOPE_PAYMENTS__ASSET_SYMBOL": PAYMENT_SYMBOL,
        "MINTSCOPE_PAYMENTS__DECIMALS": str(PAYMENT_DECIMALS),
        "MINTSCOPE_PAYMENTS__PAY_TO": str(genesis.treasury.pubkey()),
        "MINTSCOPE_PAYMENTS__FEE_PAYER_KEY": str(genesis.fee_payer),
        "MINTSCOPE_PAYMENTS__PRICE_SOURCE": "market",
        "MINTSCOPE_PAYMENTS__POOLS": pools,
        "MINTSCOPE_PAYMENTS__ALSO_USDC": "true",
    }


def _free_ports(count: int) -> list[int]:
    """Return *count* free ports."""
    with ExitStack() as probes:
        # All sockets are open at the same time, so that the ports differ.
        bound = [probes.enter_context(bind(ApiConfig(host=HOST, port=0))) for _ in range(count)]
        return [int(each.getsockname()[1]) for each in bound]


def _until(children: Children, is_done: Callable[[], bool]) -> None:
    """Wait until *is_done* returns True, or a signal to stop arrives.

    Raises ChildEnded if a vital child ends for good, or if *is_done* still returns False after
    pauses of READY_TIMEOUT_S in total.
    """
    for _ in range(int(READY_TIMEOUT_S / POLL_S)):
        if children.stopping or is_done():
            return
        children.pause(POLL_S)
    raise ChildEnded(f"not ready after {READY_TIMEOUT_S:g} s", needs_operator=False)


def _answers(http: httpx.Client, url: str, headers: Mapping[str, str] | None = None) -> bool:
    """Return whether a GET of *url* is answered with a 2xx status."""
    try:
        return http.get(url, headers=headers).is_success
    except httpx.HTTPError:
        return False


def _is_ready(http: httpx.Client, origin: str, credit_token: str) -> bool:
    """Return whether the api of this demo is ready; only this api knows *credit_token*."""
    return _answers(http, f"{origin}/readyz") and _answers(
        http, f"{origin}/v1/credits/balance", {"Authorization": f"Bearer {credit_token}"}
    )


def _invite(
    origin: str,
    rpc_url: str,
    credit_token: str,
    password: str,
    folder: Path,
    traded: Mapping[str, Mint],
    *,
    has_wallet: bool,
) -> None:
    """Print how to use the running demo: tokens, web pages, a password, and example commands."""
    mintscope = f"{shlex.quote(sys.executable)} -m mintscope"
    command = f"env MINTSCOPE_DATA_DIR={shlex.quote(str(folder))} {mintscope}"
    text = (
        Path(__file__)
        .with_name("demo.txt")
        .read_text("utf-8")
        .format(
            origin=origin,
            credits=CREDITS,
            curl="curl -s -H " + shlex.quote(f"Authorization: Bearer {credit_token}"),
            sol=WSOL,
            tokens="\n".join(f"  {symbol:6} {mint}" for symbol, mint in traded.items()),
            administrator=ADMINISTRATOR,
            password=password,
            mintscope=mintscope,
            command=command,
            rpc_url=rpc_url,
            agent=f"{shlex.quote(sys.executable)} -m {AGENT} {origin}",
            approve=shlex.quote(f"{command} applications approve {{id}} --scopes trade:write"),
            remove=shlex.quote(f"{command} users remove {{user}}"),
            wallet=WALLET_OFFERED.format(origin) if has_wallet else "",
        )
    )
    typer.echo(text, nl=False)


def _command(environment: Mapping[str, str], *words: str, typed: str = "") -> str:
    """Run `mintscope` with the arguments *words* and the input *typed*; return its output.

    Raises DemoFailed if the exit code is not 0.
    """
    done = subprocess.run(  # noqa: S603 - our own interpreter, our own arguments
        [sys.executable, "-m", "mintscope", *words],
        env=environment,
        check=False,
        capture_output=True,
        text=True,
        input=typed,
    )
    if done.returncode:
        raise DemoFailed(
            f"expected `mintscope {' '.join(words[:2])}` to succeed; it ended with"
            f" {done.returncode}: {done.stderr.strip()}"
        )
    return done.stdout


def _listener(port: int | None) -> socket.socket:
    """Return the listening socket of the API; without *port*, on the usual port or a free one."""
    try:
        return bind(ApiConfig(host=HOST, port=ApiConfig().port if port is None else port))
    except OSError:
        if port is not None:
            raise
        return bind(ApiConfig(host=HOST, port=0))
