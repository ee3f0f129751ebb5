"""Each command of the pages runs as written, on a service like the one in the documents.

Commands are in ```sh blocks and, if complete, in quotes (`mintscope sales status`). A block that
begins by setting a variable is run as a whole. Placeholders are replaced: addresses, wallets,
numbers. Every command is run, and the test fails if it cannot run. The exceptions are names of
commands that a page also shows with arguments, `make` targets (`make -n` checks them) and the demo
(tests/e2e/test_demo.py runs it).
"""

import json
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from textwrap import dedent
from typing import Any

import apsw
import httpx
import pytest

from mintscope.app.cli import history
from mintscope.app.stores.folder import MONEY_FILE
from mintscope.kit.credentials import CredentialKind, is_well_formed
from mintscope.solana.blocks import WSOL
from mintscope_client.examples.agent_signup import Agent
from mintscope_devchain.market.world import World
from support.processes.documented_service import GENESIS, DocumentedService, documented_service
from support.scenes.postgres import url_in

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "api").glob("*.md")),
    *(
        page
        for page in sorted((ROOT / "docs" / "operating").glob("*.md"))
        if page.stem != "install"
    ),
    ROOT / "docs" / "reference" / "config.md",
]
LOOK_S = 0.2
PASSWORD = "a password that is long enough"
USDC = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"
BUY = (
    "mintscope buy --url https://api.example --rpc https://your-node.example --wallet id.json"
    f" --asset {USDC} --pay-to SELLERS_WALLET --max 1 credits 10"
)
APP = """
INSERT INTO authenticator_app (user, nonce, made_at, confirmed_at, last_step)
VALUES (?, ?, 1, 1, 0)
"""
BY_SHELL = {"curl", "python", "cp", ".", "export"}
CURL = f"""#!{sys.executable}
import sys, httpx
words, headers, body = iter(sys.argv[1:]), {{}}, None
for word in words:
    if word == "-H":
        name, _, value = next(words).partition(": ")
        headers[name] = value
    elif word == "-d":
        body = next(words)
    elif word != "-s":
        url = word
answer = httpx.request("GET" if body is None else "POST", url, headers=headers, content=body)
print(answer.text)
"""

pytestmark = pytest.mark.process


def _blocks(page: Path) -> Iterator[list[str]]:
    """Yield the commands of each `sh` block of a page, with continued lines joined."""
    for block in re.findall(r"```sh\n(.*?)^ *```", page.read_text(), re.DOTALL | re.MULTILINE):
        lines = re.sub(r"\\\n\s*", "", dedent(block)).splitlines()
        yield [re.sub(r"\s+# .*", "", line) for line in lines if shlex.split(line, comments=True)]


def _is_walk(block: list[str]) -> bool:
    """Return whether the commands depend on each other: the block begins by setting a variable."""
    return re.match(r"\w+=", block[0]) is not None


def _lines(page: Path) -> Iterator[str]:
    """Yield each command of a page that can run alone."""
    text = page.read_text()
    for block in _blocks(page):
        if not _is_walk(block):
            yield from block
    for quoted in re.findall(r"`(mintscope [^`]+)`", text):
        yield re.sub(r"\s+", " ", quoted)


def commands() -> list[str]:
    """Return the commands of all pages, except those that only begin a longer command."""
    found = {line for page in PAGES for line in _lines(page)}
    return sorted(one for one in found if not any(other.startswith(f"{one} ") for other in found))


COMMANDS = commands()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DocumentedService]:
    folder = tmp_path_factory.mktemp("documented")
    (folder / ".venv").symlink_to(sys.prefix)
    (folder / "docs" / "reference").mkdir(parents=True)  # a command of a checkout writes there
    if shutil.which("curl") is None:
        (folder / "bin").mkdir()
        (folder / "bin" / "curl").write_text(CURL)
        (folder / "bin" / "curl").chmod(0o755)
    with documented_service(folder) as service:
        yield service


def runs_beside_serve(service: DocumentedService, command: str) -> None:
    """Check that `serve` runs, and has started *command* if that is `ingest` or `api`."""
    name = command.split()[1]
    if name in {"ingest", "api"}:
        assert any(name in words for words in service.commands_of_serve())
    assert service.serve.poll() is None


def runs_in_make(service: DocumentedService, command: str) -> None:
    assert command in make_runs(service)


@cache
def make_runs(service: DocumentedService) -> list[str]:
    """Check that make has the targets of all commands in the pages; return these commands.

    One run checks all targets, because make looks for an interpreter each time it starts.
    """
    found = [command for command in COMMANDS if command.startswith("make ")]
    service.sh(f"make -n {' '.join(each.removeprefix('make ') for each in found)}", cwd=ROOT)
    return found


def runs_in_the_demo(_: DocumentedService, command: str) -> None:
    assert '"mintscope", "demo"' in (ROOT / "tests" / "e2e" / "test_demo.py").read_text()
    assert command == "mintscope demo"


def runs_in_a_shell(service: DocumentedService, command: str) -> None:
    in_checkout = command.startswith("python -m bench")
    token = service.mintscope("credits issue --credits 3").strip()
    text = command.replace("http://127.0.0.1:8402", service.url)
    printed = service.sh(text, cwd=ROOT if in_checkout else None, MINTSCOPE_CREDENTIAL=token)
    if command.startswith("curl"):
        assert json.loads(printed)["success"] is True, printed


def backs_up(service: DocumentedService, command: str) -> None:
    shutil.rmtree(service.folder / "backup-of-today", ignore_errors=True)  # of another test
    runs(service, command)
    assert (service.folder / "backup-of-today" / MONEY_FILE).stat().st_size > 0


def copies(service: DocumentedService, command: str) -> None:
    """Copy a backup with *command*, because the service itself is running."""
    service.mintscope("backup backup-to-copy")
    words = shlex.split(_words(command))
    places = {"--from": "sqlite:backup-to-copy", "--to": url_in(service.folder)}
    for option, place in places.items():
        words[words.index(option) + 1] = place
    assert "Copied and compared" in service.mintscope(shlex.join(words))


def rotates(service: DocumentedService, command: str) -> None:
    service.mintscope(_words(command))
    assert len(list((service.folder / "backups").glob("mintscope-*"))) == 1


def verifies(service: DocumentedService, command: str) -> None:
    printed = service.mintscope(_replaced(command, {"FOLDER": _backup(service)}))
    assert re.search(r"isSound +True", printed)


def restores(service: DocumentedService, command: str) -> None:
    places = {"FOLDER": _backup(service), "backup-of-today": _backup(service)}
    (service.folder / "secrets").mkdir(exist_ok=True)
    shutil.rmtree(service.folder / "restored", ignore_errors=True)  # of another test
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MINTSCOPE_DATA_DIR", str(service.folder / "restored"))
        service.mintscope(_replaced(command, places | {"DIR": "secrets"}))
    assert (service.folder / "restored" / MONEY_FILE).stat().st_size > 0


def _backup(service: DocumentedService) -> str:
    folder = service.folder / "backup-to-restore"
    if not folder.exists():
        service.mintscope(f"backup {folder}")
    return str(folder)


def compacts(service: DocumentedService, command: str) -> None:
    """Compact a backup, because the service itself is running."""
    shutil.rmtree(service.folder / "compacted", ignore_errors=True)
    service.mintscope("backup compacted")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MINTSCOPE_DATA_DIR", str(service.folder / "compacted"))
        assert MONEY_FILE in service.mintscope(_words(command))


def buys(service: DocumentedService, command: str) -> None:
    printed = service.mintscope(_replaced(command, _places_of_a_purchase(service)))
    assert is_well_formed(CredentialKind.CREDIT_TOKEN, printed.strip())


def _places_of_a_purchase(service: DocumentedService) -> dict[str, str]:
    return {
        "https://api.example": service.url,
        "https://your-node.example": service.rpc_url,
        USDC: str(GENESIS.mint),
        "SELLERS_WALLET": str(GENESIS.treasury.pubkey()),
    }


def finds_a_payment(service: DocumentedService, command: str) -> None:
    """Buy credits, find the payment by its token's end, and run *command* with its signature."""
    token = service.mintscope(_replaced(BUY, _places_of_a_purchase(service))).strip()
    by_token = json.loads(service.mintscope(f"payments find {token[-8:]} --json"))
    (payment,) = by_token["found"]
    printed = service.mintscope(_replaced(command, {"SIGNATURE": payment["signature"]}))
    assert "landed" in payment["chain"]
    assert "credits_issued" in printed
    assert "To the customer:" in printed


def serves_tools(service: DocumentedService, command: str) -> None:
    """Send an MCP client's first message to *command*; the server ends when its input ends."""
    token = service.mintscope("credits issue --credits 3")
    (service.folder / "token.txt").write_text(token)
    name = {"name": "a reader", "version": "1"}
    client = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": name}
    hello = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client})
    (service.folder / "hello.json").write_text(f"{hello}\n")
    text = command.replace("https://api.example", service.url)
    printed = service.sh(f"{text} < hello.json")
    assert json.loads(printed)["result"]["serverInfo"]["name"] == "mintscope"


def reads(service: DocumentedService, command: str) -> None:
    """Run *command* against the service, with a credit token."""
    token = service.mintscope("credits issue --credits 50").strip()
    places = {"https://api.example": service.url, "MINT": WSOL}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MINTSCOPE_CREDENTIAL", token)
        printed = service.mintscope(_replaced(command, places))
    assert WSOL in printed


def lists(service: DocumentedService, command: str) -> None:
    """Write the files for public API catalogs; expect the warning that the address is not https."""
    printed = service.mintscope(_replaced(command, {"https://api.example": service.url}))
    assert "is not https" in printed
    assert (service.folder / "files-for-directories" / "server.json").exists()


def _rpc(service: DocumentedService, method: str, *params: object) -> Any:
    call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return httpx.post(service.rpc_url, json=call, timeout=60).json()["result"]


def decodes(service: DocumentedService, command: str) -> None:
    """Run *command* on transactions of the newest final block, until one of them has a swap."""
    slot = _rpc(service, "getSlot", {"commitment": "finalized"})
    block = _rpc(service, "getBlock", slot, {"maxSupportedTransactionVersion": 0})
    swaps = ""
    for entry in block["transactions"]:
        (service.folder / "TRANSACTION.json").write_text(
            json.dumps({"result": entry | {"slot": slot, "blockTime": block["blockTime"]}})
        )
        swaps = swaps or service.mintscope(_words(command))
    assert '"program"' in swaps, block


def computes(service: DocumentedService, command: str) -> None:
    at = 1_762_864_000
    candles = [f"{at - 60 * n},{1 + n},{3 + n},{n},{2 + n}" for n in range(300, 0, -1)]
    swaps = [f"{at - 60 * n},{n},{1 + n},5,buy" for n in range(300, 0, -1)]
    for name, head, rows in (
        ("CANDLES.csv", "t,open,high,low,close", candles),
        ("SWAPS.csv", "t,key,price,volume,side", swaps),
    ):
        (service.folder / name).write_text("\n".join([head, *rows]) + "\n")
    assert "ema9" in service.mintscope(_words(command))


def _application(service: DocumentedService, email: str, *, exchanged: bool) -> int:
    """Apply as an agent and confirm the e-mail; return the number of the application.

    exchanged   whether to also approve the application and exchange it for an API key
    """
    with httpx.Client(base_url=service.url, timeout=60) as client:
        agent = Agent(client, email, 0)
        number = agent.sign_up()
        assert agent.confirm(agent.read_code()).status_code == 200
        if exchanged:
            service.mintscope(f"applications approve {number}")
            assert agent.exchange().status_code == 200
    return number


def reviews(service: DocumentedService, command: str) -> None:
    verb = command.split()[2]
    if verb != "list":
        number = _application(service, f"{verb}@example.org", exchanged=verb == "reset")
        command = command.replace(f" {verb} 3", f" {verb} {number}")
    service.mintscope(_words(command))


def makes_an_administrator(service: DocumentedService, command: str) -> None:
    service.mintscope(_words(command), typed=f"{PASSWORD}\n")


def removes_a_user(service: DocumentedService, command: str) -> None:
    _application(service, "removed@example.org", exchanged=True)
    users = json.loads(service.mintscope("users list --json"))
    number = max(int(user["number"]) for user in users if user["kind"] == "agent")
    service.mintscope(_words(command).replace("7", str(number)))


def drops_a_second_factor(service: DocumentedService, command: str) -> None:
    """Turn off the second factor of an administrator who has an authenticator app."""
    service.mintscope("admin create phoneless@example.org", typed=f"{PASSWORD}\n")
    users = json.loads(service.mintscope("users list --json"))
    number = next(int(user["number"]) for user in users if user["kind"] == "administrator")
    db = apsw.Connection(str(service.folder / "mintscope-data" / MONEY_FILE))
    db.set_busy_timeout(5_000)
    db.execute(APP, (number, bytes(32)))
    db.close()
    printed = service.mintscope(_words(command).replace("7", str(number)))
    assert printed == f"turned off two-factor sign-in of user {number}\n"


def asks_the_chain(service: DocumentedService, command: str) -> None:
    wallet = str(GENESIS.key("buyer").pubkey())
    service.mintscope(f"{_replaced(command, {'WALLET': wallet})} --url {service.rpc_url}")


def writes_blocks(service: DocumentedService, command: str) -> None:
    """Write a short history, because the history of ten days takes a minute."""
    service.mintscope(f"{_words(command)} --mints 1 --history-days 0 --blocks 5")
    assert (service.folder / command.rsplit(maxsplit=1)[-1]).stat().st_size > 0


def reads_history(service: DocumentedService, command: str) -> None:
    """Run *command* for a token of the devchain, without the pauses that a provider needs."""
    mint = World(seed=0, mints=1).listed[0].token.mint
    service.mintscope(f"tokens add {mint}")
    words = _replaced(command, {"MINT": mint})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(history, "LOOK_S", LOOK_S)
        patch.setattr(history, "AGAIN_S", LOOK_S)
        printed = service.mintscope(f"{words} --calls-per-s 1000", typed="y\n")
    assert "joined: " in printed


def watches_the_node(service: DocumentedService, command: str) -> None:
    """Run *command* for one second, because half a minute shows no more of a devchain."""
    service.mintscope(f"{_words(command)} --seconds 1")


def imports_candles(service: DocumentedService, command: str) -> None:
    (service.folder / "CANDLES.csv").write_text("t,open,high,low,close,volume\n3600,1,2,1,2,3\n")
    mint = str(GENESIS.mint)
    service.mintscope(f"tokens add {mint}")
    assert "1 candles" in service.mintscope(_replaced(command, {"MINT": mint}))


def runs(service: DocumentedService, command: str) -> None:
    text, _, file = command.partition(" > ")
    mint = str(GENESIS.mint)
    if " remove " in text or " show " in text:  # the commands run in any order
        service.mintscope(f"tokens add {mint}")
    printed = service.mintscope(_replaced(text, {"MINT": mint, "N": "5"}))
    if file:
        (service.folder / file).write_text(printed)


def _words(command: str) -> str:
    return command.removeprefix("mintscope ")


def _replaced(command: str, places: dict[str, str]) -> str:
    """Return the words after `mintscope`, with each placeholder of *places* replaced."""
    words = shlex.split(_words(command))
    return shlex.join(places.get(word, word) for word in words)


HOW: dict[str, Callable[[DocumentedService, str], None]] = {
    "mintscope serve": runs_beside_serve,
    "mintscope listing": lists,
    "mintscope ingest": runs_beside_serve,
    "mintscope api": runs_beside_serve,
    "mintscope devchain --to-file ": writes_blocks,
    "mintscope demo": runs_in_the_demo,
    "mintscope buy --url ": buys,
    "mintscope payments find ": finds_a_payment,
    "mintscope mcp ": serves_tools,
    "mintscope search ": reads,
    "mintscope watch ": reads,
    "mintscope get ": reads,
    "mintscope batch ": reads,
    "mintscope candles ": reads,
    "mintscope decode ": decodes,
    "mintscope indicators ": computes,
    "mintscope report ": computes,
    "mintscope admin create ": makes_an_administrator,
    "mintscope applications ": reviews,
    "mintscope users drop-second-factor ": drops_a_second_factor,
    "mintscope users remove ": removes_a_user,
    "mintscope doctor --node": watches_the_node,
    "mintscope history ": reads_history,
    "mintscope history import": imports_candles,
    "mintscope tokens add MINT --history": reads_history,
    "mintscope faucet ": asks_the_chain,
    "mintscope faults": asks_the_chain,
    "mintscope ": runs,
    "make ": runs_in_make,
    "mintscope backup ": backs_up,
    "mintscope backup --to ": rotates,
    "mintscope backup verify ": verifies,
    "mintscope restore ": restores,
    "mintscope copy ": copies,
    "mintscope compact": compacts,
    **{f"{word} ": runs_in_a_shell for word in BY_SHELL},
}


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_runs(service: DocumentedService, command: str) -> None:
    ways = [start for start in HOW if command.startswith(start)]
    assert ways, f"expected one of {', '.join(HOW)}; was {command}: say how it runs here"

    HOW[max(ways, key=len)](service, command)


def test_the_programs_of_the_clients_page_run(service: DocumentedService) -> None:
    """Run the programs of clients.md one after the other, with placeholders replaced."""
    programs = re.findall(
        r"```python\n(.*?)```", (ROOT / "docs" / "clients.md").read_text(), re.DOTALL
    )
    places = {
        "https://api.example": service.url,
        "https://your-node.example": service.rpc_url,
        "svc_credit_...": service.mintscope("credits issue --credits 30").strip(),
        USDC: str(GENESIS.mint),
        "THE_SELLERS_WALLET": str(GENESIS.treasury.pubkey()),
        'Path("id.json")': f"Path({str(service.folder / 'id.json')!r})",
    }
    left: dict[str, Any] = {}
    for program in programs:
        text = program
        for written, meant in places.items():
            text = text.replace(written, meant)
        exec(compile(text, "clients.md", "exec"), left)

    assert len(programs) == 8
    assert left["left"] == 29
    assert left["report"].token == WSOL
    assert len(left["newest"]) == 20
    assert [*left["table"]["t"]] == sorted(left["table"]["t"])
    assert left["both"].delivered == 1
    assert WSOL in left["found"]
    assert left["rsi"][-1] is not None  # the first values are None: too few candles
    assert left["newest_swap"].side in {"buy", "sell"}
    assert left["budget"].spent == 2
    assert left["live"].report.token == WSOL
    assert is_well_formed(CredentialKind.CREDIT_TOKEN, left["bought"].token)
    assert left["claims"].payer == str(left["wallet"].keypair.pubkey())
    assert left["claims"].resource_url == f"{service.url}/v1/token/{WSOL}"


def test_an_agent_gets_its_key(service: DocumentedService) -> None:
    """Run the only block with variables, in api/accounts.md, line by line, as an agent would."""
    (walk,) = (block for page in PAGES for block in _blocks(page) if _is_walk(block))
    json_is, service_is, apply, _secret_is, confirm, status, exchange, me, rotate = walk
    begin = f"{json_is}\n{service_is}".replace("http://127.0.0.1:8402", service.url)

    applied = json.loads(service.sh(f"{begin}\n{apply}"))
    begin += f"\nsecret={applied['applicationSecret']}"
    (code,) = re.findall(r"^(\d{8})\s*$", _mail(service, "agent@example.org"), re.MULTILINE)
    confirmed = json.loads(service.sh(f"{begin}\n{confirm.replace('12345678', code)}"))
    service.mintscope(f"applications approve {applied['signupId']}")
    state = json.loads(service.sh(f"{begin}\n{status}"))
    key = json.loads(service.sh(f"{begin}\n{exchange}"))["apiKey"]
    owner = json.loads(service.sh(f"{begin}\n{me.replace('svc_live_...', key)}"))

    rotated = json.loads(service.sh(f"{begin}\n{rotate.replace('svc_live_...', key)}"))

    assert "error" not in confirmed
    assert state["state"] == "approved"
    assert owner["success"] is True
    assert is_well_formed(CredentialKind.API_KEY, rotated["data"]["apiKey"])


def _mail(service: DocumentedService, email: str) -> str:
    page = service.sh(f"curl -s {service.url}/mailbox?to={email}")
    (number, *_) = re.findall(r'href="/mailbox/(\d+)"', page)
    return service.sh(f"curl -s {service.url}/mailbox/{number}.txt")


def test_more_than_30_commands_are_found() -> None:
    assert len(COMMANDS) > 30


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_with_a_command_has_the_language_sh(page: Path) -> None:
    """A block in another language, or in none, would not be run."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)
    starts = re.compile(rf"^(?:mintscope|make|{'|'.join(map(re.escape, BY_SHELL))}) ", re.MULTILINE)

    assert [text for language, text in blocks if language != "sh" and starts.search(text)] == []
