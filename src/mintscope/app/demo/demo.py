"""`mintscope demo`: the whole service on a market of its own."""

import fcntl
import os
import secrets
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import httpx
import typer

from mintscope.app.cli.output import stop
from mintscope.app.config.config import ApiConfig
from mintscope.app.config.load import child_environment
from mintscope.app.demo.buyer import BuyerTask, DemoFailed, buy, fund
from mintscope.app.running.logging import configure_logging
from mintscope.app.running.processes import bind
from mintscope.app.running.serve import ChildEnded, Children, Role, start_api
from mintscope.kit.primitives import Mint
from mintscope.solana.blocks import WSOL
from mintscope_devchain.market.world import World
from mintscope_devchain.svm.genesis import PAYMENT_DECIMALS, PAYMENT_SYMBOL, Genesis

PREFIX: Final = "mintscope-demo-"


@contextmanager
def demo_folder() -> Iterator[Path]:
    """Yield a new folder, removed after the block; remove the folders of killed demos.

    A demo holds a lock on its folder, which the kernel releases however the demo ends.
    """
    for left in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        _remove_if_left(left)
    folder, lock = _locked_folder()
    try:
        with folder:
            yield Path(folder.name)
    finally:
        os.close(lock)


def _locked_folder() -> tuple[tempfile.TemporaryDirectory[str], int]:
    """Return a new folder and the descriptor that holds its lock.

    Until it is locked, a demo that starts at the same moment removes it as left by a killed one:
    then the next is made.
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
    """Return whether *path* still refers to the file that *descriptor* has open."""
    try:
        return os.path.samestat(Path(path).stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _remove_if_left(folder: Path) -> None:
    """Remove *folder* if it belongs to this user and no demo holds it."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return  # it went meanwhile, or belongs to another user
    try:
        if os.fstat(descriptor).st_uid == os.getuid():
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
    except BlockingIOError:
        pass  # a demo runs there
    finally:
        os.close(descriptor)


SEED: Final = 0
MINTS: Final = 20
CREDITS: Final = 100
HISTORY_DAYS_MIN: Final = 0.2  # reports have each indicator of a minute
HISTORY_DAYS: Final = 10  # each timeframe has its 200 candles
READY_TIMEOUT_S: Final = 180.0  # seconds are the rule, a crowded machine the exception
POLL_S: Final = 0.1
HOST: Final = "127.0.0.1"
ADMINISTRATOR: Final = "admin@example.org"
PASSWORD_BYTES: Final = 12
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
    """Run everything on a local Solana whose market trades, until Ctrl-C.

    A buyer with a wallet pays for a report and for credits, and prints what it does.
    """
    configure_logging("warning", json_lines=False)
    try:
        with _listener(port) as listener, demo_folder() as folder:
            options = DemoOptions(history_days=history_days, streams=grpc, has_wallet=wallet)
            _run(folder, listener, options)
    except (ChildEnded, OSError) as error:
        stop(f"mintscope: {error}", 1)


class DemoOptions(NamedTuple):
    """The options of a demo: days of history, blocks by gRPC, a wallet in the browser."""

    history_days: float
    streams: bool
    has_wallet: bool


def _run(folder: Path, listener: socket.socket, options: DemoOptions) -> None:
    history_days, streams, has_wallet = options
    world = World(seed=SEED, mints=MINTS, has_story=True)
    genesis = Genesis(SEED)
    visitor = genesis.key("visitor")
    traded = {each.token.symbol: each.token.mint for each in world.listed}
    chain_port, grpc_port = _free_ports(2)
    api_port = int(listener.getsockname()[1])
    origin = f"http://{HOST}:{api_port}"
    rpc_url = f"http://{HOST}:{chain_port}"
    environment = child_environment(
        {
            "MINTSCOPE_DATA_DIR": str(folder),
            "MINTSCOPE_CHAIN__RPC_URL": rpc_url,
            "MINTSCOPE_API__PORT": str(api_port),
            "MINTSCOPE_MARKET__MINTS": ",".join(traded.values()),
            **_settings(genesis, world),
            **(_streamed(grpc_port) if streams else {}),
            **({"MINTSCOPE_WEB__DEMO_WALLET_SEED": visitor.secret().hex()} if has_wallet else {}),
        }
    )
    with Children(environment) as children:
        _tell(f"starting a local Solana with {history_days:g} days of history ...")
        arguments = ["devchain", "--port", str(chain_port), "--history-days", str(history_days)]
        arguments.append("--story")
        arguments += ["--grpc-port", str(grpc_port)] if streams else []
        children.start("devchain", arguments, role=Role(has_memory=True, is_vital=True))
        _until(children, lambda: _answers(f"{rpc_url}/health"))
        children.start("ingest", ["ingest"])
        start_api(children, listener)
        issued = _command(environment, "credits", "issue", str(CREDITS), "--note", "demo")
        credit_token = issued.strip()
        password = secrets.token_urlsafe(PASSWORD_BYTES)
        _command(environment, "admin", "create", ADMINISTRATOR, typed=f"{password}\n")
        _until(children, lambda: _is_ready(origin, credit_token))
        if not children.stopping:
            try:
                if has_wallet:
                    fund(rpc_url, visitor.pubkey())
                buy(BuyerTask(origin=origin, rpc_url=rpc_url, genesis=genesis))
            except (DemoFailed, httpx.HTTPError, TimeoutError) as trouble:
                _tell(f"the buyer gave up: {type(trouble).__name__}: {trouble}")
            _invite(origin, credit_token, traded)
            _invite_people(origin, rpc_url, password, folder)
            if has_wallet:
                typer.echo(
                    f"\nA wallet is in every browser that opens {origin}/pricing: buy with it."
                )
            typer.echo("\nCtrl-C ends all of it.")
            sys.stdout.flush()
        children.wait()
        listener.close()


def _settings(genesis: Genesis, world: World) -> dict[str, str]:
    """Return the settings of a demo, which sells for the chain's own token at market price."""
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


def _streamed(port: int) -> dict[str, str]:
    """Return the settings for reading blocks from the stream."""
    return {
        "MINTSCOPE_CHAIN__SOURCE": "geyser",
        "MINTSCOPE_GEYSER__URLS": f"http://{HOST}:{port}",
    }


def _free_ports(count: int) -> list[int]:
    """Return ports that nothing listens on now."""
    with ExitStack() as probes:
        bound = [probes.enter_context(bind(ApiConfig(host=HOST, port=0))) for _ in range(count)]
        return [int(each.getsockname()[1]) for each in bound]


def _until(children: Children, is_done: Callable[[], bool]) -> None:
    """Wait for *is_done* or a signal.  Raises ChildEnded, including on a timeout."""
    for _ in range(int(READY_TIMEOUT_S / POLL_S)):
        if children.stopping or is_done():
            return
        children.pause(POLL_S)
    raise ChildEnded(f"not ready after {READY_TIMEOUT_S:g} s", needs_operator=False)


def _answers(url: str, headers: Mapping[str, str] | None = None) -> bool:
    """Return whether *url* responds with success."""
    try:
        return httpx.get(url, headers=headers, timeout=2).is_success
    except httpx.HTTPError:
        return False


def _is_ready(origin: str, credit_token: str) -> bool:
    """Return whether the demo's api is ready; only that api knows *credit_token*."""
    return _answers(f"{origin}/readyz") and _answers(
        f"{origin}/v1/credits/balance", {"Authorization": f"Bearer {credit_token}"}
    )


def _invite(origin: str, credit_token: str, traded: Mapping[str, Mint]) -> None:
    """Print lines to try on the command line."""

    def curl(path: str) -> str:
        authorization = shlex.quote(f"Authorization: Bearer {credit_token}")
        return f"  curl -s -H {authorization} {origin}{path}"

    typer.echo(f"\nmintscope is ready at {origin}\n")
    typer.echo(f"A credit token with {CREDITS} credits; wrapped SOL costs you the first:\n")
    typer.echo(curl(f"/v1/token/{WSOL}") + "\n")
    typer.echo("The rest of it:\n")
    typer.echo(curl("/v1/credits/balance") + "\n")
    typer.echo("Other tokens on this market:\n")
    for symbol, mint in traded.items():
        typer.echo(f"  {symbol:6} {mint}")
    typer.echo(
        "\nGONE is dead. GRAD leaves its bonding curve three minutes after the start. NEW1 to NEW5"
        "\nlaunch after 2, 5, 10, 20 and 40 minutes. TWIN looks like BONE; SAME is called MOON."
    )


def _invite_people(origin: str, rpc_url: str, password: str, folder: Path) -> None:
    """Print the addresses of the pages, and how to fund a wallet and equip an agent."""
    typer.echo("\nFor people:\n")
    typer.echo(f"  pages           {origin}/")
    typer.echo(f"  administrator   {ADMINISTRATOR}, password {password}")
    typer.echo(f"  mailbox         {origin}/mailbox, where e-mails are shown instead of sent")
    typer.echo(f"  applications    {origin}/admin, or on the command line:\n")
    mintscope = f"{shlex.quote(sys.executable)} -m mintscope"
    command = f"env MINTSCOPE_DATA_DIR={shlex.quote(str(folder))} {mintscope}"
    typer.echo(f"  {command} applications list")
    typer.echo(f"\nA wallet of yours that buys credits at {origin}/pricing: 100 payment tokens:\n")
    typer.echo(f"  {mintscope} faucet WALLET --url {rpc_url}")
    agent = f"{shlex.quote(sys.executable)} -m {AGENT} {origin}"
    approve = shlex.quote(f"{command} applications approve {{id}} --scopes trade:write")
    remove = shlex.quote(f"{command} users remove {{user}}")
    typer.echo("\nAn agent that signs up, and waits until you approve it at /admin:\n")
    typer.echo(f"  {agent}\n")
    typer.echo("One that has itself approved, and at the end removed:\n")
    typer.echo(f"  {agent} --approve-with {approve} --remove-with {remove}")


def _command(environment: Mapping[str, str], *words: str, typed: str = "") -> str:
    """Run `mintscope` with *words*; return its output."""
    done = subprocess.run(  # noqa: S603 - our own interpreter, our own arguments
        [sys.executable, "-m", "mintscope", *words],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
        input=typed,
    )
    return done.stdout


def _listener(port: int | None) -> socket.socket:
    """Return the listening socket of the API; None: on the usual port if free, else on another."""
    try:
        return bind(ApiConfig(host=HOST, port=ApiConfig().port if port is None else port))
    except OSError:
        if port is not None:
            raise
        return bind(ApiConfig(host=HOST, port=0))


def _tell(message: str) -> None:
    typer.echo(message, err=True)
