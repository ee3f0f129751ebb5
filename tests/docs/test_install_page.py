"""The steps of docs/operating/install.md work as written: they lead to a sale and to a restore."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Final

import pytest

from mintscope.app.config.load import child_environment
from mintscope.kit.credentials import CredentialKind, is_well_formed
from mintscope_devchain.svm.genesis import PAYMENT_DECIMALS
from support.processes.documented_service import GENESIS, chain_with_a_wallet
from support.processes.servers import free_port

ROOT: Final = Path(__file__).resolve().parents[2]
SOURCES: Final = (ROOT / "src", ROOT / "packages" / "client" / "src")
SITE: Final = sysconfig.get_path("purelib")
# Paths in the page that are placed below the folder of the machine.
OURS: Final = re.compile(r"(?<![\w./-])/(opt|etc|var/lib|usr/local)/")
LOCKED: Final = re.compile(
    r"^(\S+)/bin/python -m pip install --require-hashes --only-binary :all: -r (requirements/\S+)$",
    re.MULTILINE,
)
INSTALLS: Final = re.compile(r"^\S+/bin/python -m pip install --no-deps .*$", re.MULTILINE)
# The time limit of one block of the page, in seconds; most blocks take 1 to 10 s. A block that
# hangs is reported, with its output and the logs, however long the whole page takes on a busy
# machine.
RUN_S: Final = 150.0

SYSTEMCTL: Final = """
import os, re, shlex, signal, subprocess, sys, time
from pathlib import Path
root = Path(os.environ["MACHINE"])
folder = root / "etc/systemd/system"
runs = root / "run"
runs.mkdir(exist_ok=True)

def unit(name):
    lines = (folder / name).read_text().splitlines()
    return [line.split("=", 1) for line in lines if re.match(r"[A-Z]\\w*=", line)]

def here(text):
    text = text.replace("%S", "/var/lib").replace("%C", "/var/cache")
    return re.sub(r"(?<![\\w./-])/(opt|etc|var)/", rf"{root}/\\1/", text)

def start(name):
    if name.endswith(".timer"):
        assert dict(unit(name))["OnCalendar"]
        return
    if not (folder / name).exists():
        return  # of another program's package
    keys = unit(name)
    values = dict(keys)
    env = dict(os.environ)
    for key, value in keys:
        if key == "Environment":
            variable, _, text = here(value).partition("=")
            env[variable] = text
    # hand-on-what-is-compiled puts machine code beside its sources, not into a cache folder.
    env.pop("NUMBA_CACHE_DIR", None)
    for each in values["StateDirectory"].split():
        (root / "var/lib" / each).mkdir(parents=True, exist_ok=True, mode=0o700)
    command = shlex.split(here(values["ExecStart"]))
    log = (runs / f"{name}.log").open("ab")
    where = here(values["WorkingDirectory"])
    if values["Type"] == "oneshot":
        sys.exit(subprocess.run(command, env=env, cwd=where).returncode)
    process = subprocess.Popen(
        command, env=env, cwd=where, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
        start_new_session=True)
    (runs / f"{name}.pid").write_text(str(process.pid))

def stop(name):
    pid = runs / f"{name}.pid"
    if not pid.exists():
        return
    number = int(pid.read_text())
    pid.unlink()
    os.kill(number, signal.SIGTERM)
    for _ in range(400):
        if not Path(f"/proc/{number}/cmdline").exists() or not Path(
            f"/proc/{number}/cmdline").read_bytes():
            return
        time.sleep(0.05)
    os.kill(number, signal.SIGKILL)

verb, *names = [word for word in sys.argv[1:] if word != "--now"]
for name in names:
    if verb == "stop" or verb == "restart":
        stop(name)
    if verb in ("start", "restart", "enable"):
        start(name)
"""
INSTALL: Final = """
import os, shutil, sys
words, kept = iter(sys.argv[1:]), []
for word in words:
    if word in ("-o", "-g"):
        next(words)
    else:
        kept.append(word)
os.execv("/usr/bin/install", ["install", *kept])
"""
RUNUSER: Final = """
import os, sys
words = sys.argv[sys.argv.index("--") + 1 :]
os.execvp(words[0], words)
"""
CURL: Final = """
import sys, time, urllib.request
for _ in range(600):
    try:
        print(urllib.request.urlopen(sys.argv[-1], timeout=5).read().decode())
        break
    except OSError as error:
        last = error
        time.sleep(0.2)
else:
    sys.exit(f"curl: {last}")
"""
# Python and numba recognize a compiled source by its modification time and size.
HAND_ON: Final = f"""
import os, shutil, sys
from pathlib import Path
for sources in {list(map(str, SOURCES))!r}:
    for site in Path(os.environ["MACHINE"]).glob("opt/*/lib/python*/site-packages"):
        for kept in Path(sources).rglob("__pycache__/*"):
            folder = kept.parent.relative_to(sources)
            source = kept.parents[1] / f"{{kept.name.partition('.')[0]}}.py"
            installed = site / folder.parent / source.name
            if installed.exists():
                (site / folder).mkdir(exist_ok=True)
                shutil.copy(kept, site / folder)
                shutil.copystat(source, installed)
"""
PYTHON: Final = f"""
import os, sys
words = sys.argv[1:]
if words[:2] == ["-m", "venv"]:
    words.insert(2, "--without-pip")
os.execv({sys.executable!r}, [{sys.executable!r}, *words])
"""
PROGRAMS: Final[Mapping[str, str]] = {
    "python3": PYTHON,
    "hand-on-what-is-compiled": HAND_ON,
    "systemctl": SYSTEMCTL,
    "install": INSTALL,
    "runuser": RUNUSER,
    "curl": CURL,
    "chown": "",
    "systemd-sysusers": "",
}


def _taken_from_here(line: re.Match[str]) -> str:
    """Return a command in place of *line* that lets Python find the packages of the tests."""
    where = f"{line[1]}/bin/python -c 'import sysconfig; print(sysconfig.get_path(\"purelib\"))'"
    return f"echo {SITE} > $({where})/locked.pth"


class Machine:
    """A folder with scripts in place of programs; *environment* has variables for its processes.

    All changes are made below the folder: `systemctl` reads the units installed there and runs
    their commands, `install` and `chown` do not change owners, `runuser` runs as the current user.
    `python3 -m venv` makes environments that use the pip and the locked packages of the tests.
    Before the next command of the page runs, installed packages get the compiled files of the same
    sources in the checkout: compiling machine code takes half a minute (a test of it is
    tests/app/test_kernels.py), and byte code several seconds. Everything else is real.

    checkout   a folder of symbolic links to the repository
    """

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.folder = folder
        self._environment = environment
        self.checkout = folder / "checkout"
        self.checkout.mkdir(parents=True)
        for entry in ROOT.iterdir():
            if entry.name not in {".venv", ".git", "build", "node_modules"}:
                (self.checkout / entry.name).symlink_to(entry)
        programs = folder / "programs"
        programs.mkdir()
        for name, text in PROGRAMS.items():
            (programs / name).write_text(f"#!{sys.executable}\n{text}")
            (programs / name).chmod(0o755)
        caddy = Path(sys.executable).with_name("caddy")
        if caddy.exists():
            (programs / "caddy").symlink_to(caddy)
        self.path = f"{folder / 'usr/local/bin'}:{programs}:/usr/bin:/bin"

    def here(self, block: str) -> str:
        """Return the commands *block*, with paths below the machine's folder and no downloads."""
        joined = re.sub(r"\\\n\s*", "", block)
        for _, lock in LOCKED.findall(joined):
            assert " --hash=sha256:" in (ROOT / lock).read_text(), lock
        offline = LOCKED.sub(_taken_from_here, joined)
        offline = INSTALLS.sub(r"\g<0>\nhand-on-what-is-compiled", offline)
        return OURS.sub(rf"{self.folder}/\1/", offline)

    def run(self, block: str) -> str:
        """Run *block*, commands of install.md, on the machine; return its output."""
        text = self.here(block)
        environment = {
            "PATH": self.path,
            "MACHINE": str(self.folder),
            "PIP_NO_COMPILE": "1",
            **self._environment,
        }
        with TemporaryFile("w+") as output, TemporaryFile("w+") as errors:
            running = subprocess.Popen(
                ["sh", "-euc", text],
                cwd=self.checkout,
                env=child_environment(environment),
                stdout=output,
                stderr=errors,
                start_new_session=True,
            )
            try:
                code: int | None = running.wait(RUN_S)
            except subprocess.TimeoutExpired:
                code = None
                os.killpg(running.pid, signal.SIGKILL)
                running.wait()
            output.seek(0)
            errors.seek(0)
            printed = output.read()
            ended = f"did not end within {RUN_S:.0f} s" if code is None else f"ended with {code}"
            assert code == 0, f"{text} {ended}\n{printed}\n{errors.read()}\n{self.log()}"
        return printed

    def log(self) -> str:
        """Return the end of the log of each service."""
        logs = sorted((self.folder / "run").glob("*.log")) if (self.folder / "run").exists() else []
        return "\n".join(each.read_text()[-3_000:] for each in logs)

    def end(self) -> None:
        """End the processes of the services."""
        for pid in (self.folder / "run").glob("*.pid"):
            with suppress(ProcessLookupError):
                os.killpg(int(pid.read_text()), signal.SIGKILL)
        shutil.rmtree(self.folder / "checkout" / "build", ignore_errors=True)


PAGE: Final = ROOT / "docs" / "operating" / "install.md"
USDC: Final = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"
STAMP: Final = "mintscope-20261126T120000Z"

# The machine ends each block that hangs; all seventeen take one to three minutes.
pytestmark = [pytest.mark.process, pytest.mark.timeout(900)]


def sections() -> dict[int, list[str]]:
    """Return the shell blocks of each step of the page, by the number of the step."""
    found: dict[int, list[str]] = {}
    for part in re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)[1:]:
        found[int(part.partition(".")[0])] = re.findall(r"```sh\n(.*?)```", part, re.DOTALL)
    return found


STEPS: Final = sections()


@pytest.fixture
def chain(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """Yield the address of a devchain, and a folder with the wallet of a buyer with money."""
    with chain_with_a_wallet(tmp_path) as rpc_url:
        yield rpc_url, tmp_path


def machine(folder: Path, port: int, stack: ExitStack) -> Machine:
    made = Machine(
        folder,
        {
            "MINTSCOPE_API__PORT": str(port),
            "MINTSCOPE_METRICS__ENABLED": "false",
            "MINTSCOPE_CHAIN__START": "first",
            "MINTSCOPE_PAYMENTS__ASSET": str(GENESIS.mint),
            "MINTSCOPE_PAYMENTS__DECIMALS": str(PAYMENT_DECIMALS),
        },
    )
    stack.callback(made.end)
    return made


def follow(on: Machine, step: int, places: dict[str, str]) -> list[str]:
    """Run every shell block of a step; return the output of each.

    places   the replacement of each placeholder
    """
    printed = []
    for block in STEPS[step]:
        text = block
        for written, meant in places.items():
            text = text.replace(written, meant)
        printed.append(on.run(text))
    return printed


def test_the_steps_lead_to_a_sale_and_to_a_restore_from_a_backup(
    chain: tuple[str, Path], tmp_path: Path
) -> None:
    rpc_url, wallet = chain
    port = free_port()
    places = {
        "https://your-node.example": rpc_url,
        "https://api.example.org": f"http://127.0.0.1:{port}",
        "http://127.0.0.1:8402": f"http://127.0.0.1:{port}",
        USDC: str(GENESIS.mint),
        "TREASURY": str(GENESIS.treasury.pubkey()),
        "MINT\n": f"{GENESIS.mint}\n",
    }
    with ExitStack() as stack:
        one = machine(tmp_path / "one", port, stack)
        (one.checkout / "id.json").write_text((wallet / "id.json").read_text())
        (one.checkout / "fee-payer.json").write_text(GENESIS.fee_payer.to_json())
        for name in ("id.json", "fee-payer.json"):
            (one.checkout / name).chmod(0o600)
        follow(one, 1, places)
        *_, installed = follow(one, 2, places)
        *_, config = follow(one, 3, places)
        follow(one, 4, places)
        follow(one, 5, places)
        *_, token = follow(one, 6, places)
        status, bought = follow(one, 7, places)
        follow(one, 8, places)
        follow(one, 10, places)
        one.run("systemctl stop mintscope.service")

        two = machine(tmp_path / "two", port, stack)
        (two.folder / "opt").symlink_to(one.folder / "opt")
        follow(two, 3, places)
        (backup, *_) = sorted((one.folder / "var/lib/mintscope-backups").glob("mintscope-*"))
        (two.folder / "var/lib/mintscope-backups").mkdir()
        backup.rename(two.folder / "var/lib/mintscope-backups" / backup.name)
        (restored,) = follow(two, 9, places | {STAMP: backup.name})
        follow(two, 4, places)
        found = json.loads(two.run(f"mintscope payments find {bought.strip()[-8:]} --json"))

    keys = {each["key"]: each for each in json.loads(config)}
    assert installed.strip()
    assert keys["chain.rpc_url"]["origin"] == "chain.rpc_url_file"
    assert is_well_formed(CredentialKind.CREDIT_TOKEN, token.split()[-1])
    assert "open" in status
    assert is_well_formed(CredentialKind.CREDIT_TOKEN, bought.strip())
    assert bought.strip()[-8:] in restored
    assert token.split()[-1][-8:] in restored
    assert [each["finding"] for each in found["found"]] == ["credits_issued"]


def test_every_command_is_in_a_numbered_step() -> None:
    blocks = re.findall(r"^```(\w+)\n", PAGE.read_text(), re.MULTILINE)

    assert set(blocks) == {"sh"}
    assert sorted(STEPS) == list(range(1, 11))
    assert sum(map(len, STEPS.values())) == len(blocks)
