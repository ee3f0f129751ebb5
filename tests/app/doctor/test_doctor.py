"""The doctor reports each fault with its remedy, and exits 1 if a check fails."""

import asyncio
import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from typer.testing import CliRunner
from typing_extensions import override

from mintscope.app.config.config import ApiConfig, ChainConfig, CreditsConfig, MetricsConfig
from mintscope.app.config.groups import Config, GeyserConfig
from mintscope.app.doctor.chain import MAINNET, check_chain
from mintscope.app.doctor.doctor import _guarded, app
from mintscope.app.doctor.finding import Finding, Level, fail, ok
from mintscope.app.doctor.machine import (
    check_folder,
    check_packages,
    check_pepper,
    check_ports,
    check_sqlite,
)
from mintscope.app.doctor.store import check_market, check_money
from mintscope.app.running.processes import held
from mintscope.kit.clock import ManualClock, SystemClock
from mintscope.kit.errors import FolderOpen
from mintscope.kit.metrics import serve_metrics
from mintscope.kit.primitives import Slot, UnixMs, UnixS
from mintscope.market.log import PricedSwap, SlotHeader
from mintscope.market.ports import FinalSlot, NewSlot, Unread
from mintscope.solana.blocks import WSOL, Gap
from mintscope_devchain.chain import Devchain
from mintscope_devchain.methods.table import Methods
from mintscope_devchain.svm.genesis import Genesis
from support.processes.listening import listening
from support.scenes.postgres import url_in
from support.scenes.stores import market_in, money_in
from support.scenes.traded import fold_all

NOW = 1_750_000_000
PEPPER = sha256(b"the pepper of the tests").digest()


@contextmanager
def node(**answers: Any) -> Iterator[str]:
    """Run a node that answers each method with its result in *answers*; yield the node's URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            known = asked["method"] in answers
            answer = (
                {"result": answers[asked["method"]]}
                if known
                else {"error": {"code": -32601, "message": "Method not found"}}
            )
            body = json.dumps({"jsonrpc": "2.0", "id": 1, **answer}).encode()
            with suppress(
                ConnectionError
            ):  # a traceback would be printed among the lines of the doctor
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        @override
        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def healthy(time: int) -> dict[str, Any]:
    block = {"blockhash": "b", "previousBlockhash": "a", "parentSlot": 6, "transactions": []}
    return {
        "getHealth": "ok",
        "getGenesisHash": MAINNET,
        "getSlot": 7,
        "getBlockTime": time,
        "getRecentPerformanceSamples": [{"numSlots": 300, "samplePeriodSecs": 60}],
        "getBlock": block,
    }


def chain_findings(url: str) -> list[Finding]:
    return list(check_chain(Config(chain=ChainConfig(rpc_url=SecretStr(url)))))


def levels(findings: list[Finding]) -> list[Level]:
    return [finding.level for finding in findings]


def test_a_finding_is_one_line() -> None:
    assert str(fail("it is broken", "mend it")) == "FAIL  it is broken — mend it"


def test_a_healthy_node_is_ok() -> None:
    with node(**healthy(SystemClock().now() // 1000)) as url:
        findings = chain_findings(url)

    assert levels(findings) == [Level.OK] * 5
    assert findings[0].what.endswith("is up, mainnet")
    assert findings[2].what == "pace: 200 ms a slot, over the last 60 s"
    assert findings[3].what == (
        "finality: 0 slots (0 ms) behind confirmed;"
        " the node does not know whether the cluster is on Alpenglow"
    )


@pytest.mark.parametrize(
    ("certificate", "said"),
    [({"block": {}}, "is on Alpenglow"), (None, "is not on Alpenglow yet")],
)
def test_alpenglow_is_reported_by_the_certificate_of_the_node(
    certificate: object, said: str
) -> None:
    with node(**healthy(SystemClock().now() // 1000), getAgGenesisCert=certificate) as url:
        assert f"the cluster {said}" in chain_findings(url)[3].what


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (
            "refused",
            (
                "finality: the node does not know the level confirmed: blocks are read, and"
                " payments taken, once they are final; the cluster is on Alpenglow"
            ),
        ),
        (
            "finalized",
            "finality: 0 slots (0 ms) behind confirmed; the cluster is on Alpenglow",
        ),
    ],
)
async def test_a_node_without_the_level_confirmed_does_not_fail(fault: str, said: str) -> None:
    chain = Devchain(now=SystemClock().now(), history_days=0)
    for _ in range(400):
        chain.tick()
    Methods(chain.vm, chain).call("devchain_setFaults", [{"confirmed": fault}])
    async with listening(chain.app) as url:
        found = await asyncio.to_thread(chain_findings, url)

    assert said in [finding.what for finding in found], found
    assert Level.FAIL not in levels(found)


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ({"getGenesisHash": "x" * 44}, "is not mainnet"),
        ({"getHealth": "behind"}, "reports: 'behind'"),
        ({"getBlockTime": NOW}, "s ahead of block 7"),
        ({"getBlockTime": 4_000_000_000}, "s behind block 7"),
        ({"getBlockTime": None}, "gives no time"),
        ({"getBlock": None}, "has no block 7"),
        ({"getRecentPerformanceSamples": []}, "does not know how long a slot takes"),
    ],
)
def test_an_unhealthy_node_is_a_warning(answers: dict[str, Any], expected: str) -> None:
    with node(**(healthy(SystemClock().now() // 1000) | answers)) as url:
        findings = chain_findings(url)

    (warning,) = [finding for finding in findings if finding.level is Level.WARN]
    assert expected in warning.what
    assert warning.fix


def test_a_server_that_is_not_a_node_fails_and_its_key_stays_secret() -> None:
    with node(getHealth="ok") as url:
        (finding,) = chain_findings(f"{url}/key-123456?q=1")

    assert finding.level is Level.FAIL
    assert "it does not offer this method" in finding.what
    assert "123456" not in str(finding)


def test_a_stream_that_does_not_answer_fails_and_its_x_token_stays_secret() -> None:
    with node(**healthy(NOW)) as url, socket.create_server(("127.0.0.1", 0)) as probe:
        closed = f"http://127.0.0.1:{probe.getsockname()[1]}"
        probe.close()
        settings = Config(
            chain=ChainConfig(source="geyser", rpc_url=SecretStr(url)),
            geyser=GeyserConfig(urls=(SecretStr(closed),), x_tokens=(SecretStr("hunter2"),)),
        )
        found = list(check_chain(settings))

    assert found[-1].level is Level.FAIL
    assert "stream: 127.0.0.1 does not answer: unavailable" in str(found[-1])
    assert "hunter2" not in "".join(map(str, found))


def test_a_node_that_does_not_answer_fails() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]

    (finding,) = chain_findings(f"http://127.0.0.1:{port}")

    assert finding.level is Level.FAIL
    assert "does not answer" in finding.what


def test_block_files_that_cannot_be_read_fail(tmp_path: Path) -> None:
    good, bad, empty = (tmp_path / name for name in ("good", "bad", "empty"))
    good.write_text('{"slot": 1, "transactions": []}\n')
    bad.write_text("{")
    empty.touch()
    chain = ChainConfig(source="files", files=(good, bad, empty, tmp_path / "nowhere"))

    findings = list(check_chain(Config(chain=chain)))

    assert levels(findings) == [Level.OK, Level.FAIL, Level.FAIL, Level.FAIL]
    assert f"{bad}:1: expected one getBlock answer" in findings[1].what
    assert "cannot be read" in findings[3].what


def test_a_data_dir_may_be_absent_but_must_be_possible_to_create(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()

    (fresh,) = check_folder(Config(data_dir=tmp_path / "new"))
    (impossible,) = check_folder(Config(data_dir=file / "below"))

    assert (fresh.level, impossible.level) == (Level.OK, Level.FAIL)
    assert "made at the first start" in fresh.what
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("mode", [0o755, 0o750, 0o710, 0o702])
def test_the_service_does_not_start_in_a_folder_open_to_others_unless_allowed(
    tmp_path: Path, mode: int
) -> None:
    tmp_path.chmod(mode)
    reported = Config(data_dir=tmp_path, data_dir_may_be_open=True)

    _, failure = check_folder(Config(data_dir=tmp_path))
    _, warning = check_folder(reported)

    assert (failure.level, warning.level) == (Level.FAIL, Level.WARN)
    assert failure.fix == f"chmod 700 {tmp_path}, or set data_dir_may_be_open"
    assert warning.fix == f"chmod 700 {tmp_path}"
    with pytest.raises(FolderOpen, match=f"its mode is {mode:o}: chmod 700"):
        held(Config(data_dir=tmp_path), "serve").__enter__()
    with held(reported, "serve"):
        pass


def test_a_full_disk_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mintscope.app.doctor.machine.DISK_BYTES_MIN", 1 << 80)

    assert next(check_folder(Config(data_dir=tmp_path))).level is Level.FAIL


def test_the_installed_sqlite_is_new_enough_and_an_older_one_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert levels(list(check_sqlite(Config()))) == [Level.OK]
    monkeypatch.setattr("apsw.sqlite_lib_version", lambda: "3.40.1")
    assert levels(list(check_sqlite(Config()))) == [Level.FAIL]


def test_an_open_or_unusable_pepper_fails(tmp_path: Path) -> None:
    config = Config(data_dir=tmp_path)
    path = tmp_path / "pepper"

    assert levels(list(check_pepper(config))) == [Level.OK]
    path.write_text(PEPPER.hex())
    path.chmod(0o644)
    assert levels(list(check_pepper(config))) == [Level.FAIL]
    path.chmod(0o600)
    assert levels(list(check_pepper(config))) == [Level.OK]
    for unusable in ("no pepper", bytes(range(32)).hex(), "0" * 64):
        path.write_text(unusable)
        (finding,) = check_pepper(config)
        assert finding.level is Level.FAIL
        assert finding.what.endswith("the service does not start")


def test_a_port_in_use_fails_unless_this_installation_serves_it(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, serve_metrics("127.0.0.1", 0) as ours:
        port = taken.getsockname()[1]
        config = Config(
            data_dir=tmp_path / "data",
            api=ApiConfig(port=port),
            metrics=MetricsConfig(ingest_port=ours, api_port=0),
        )
        with held(config, "ingest"):
            findings = list(check_ports(config))
        of_others = list(check_ports(config))

    assert levels(findings) == [Level.FAIL, Level.OK, Level.OK]
    assert "set api.port to another" in findings[0].fix
    assert "is served by mintscope" in findings[1].what
    assert levels(of_others) == [Level.FAIL, Level.FAIL, Level.OK]
    assert of_others[1].what.endswith("another installation of mintscope serves it")
    assert "set metrics.ingest_port to another" in of_others[1].fix


async def market(folder: Path, *, gap: bool = False, unread: bool = False) -> None:
    header = SlotHeader(slot=Slot(5), parent_slot=Slot(4), blockhash="b", time=UnixS(NOW))
    gaps = [Gap(Slot(6), Slot(9), "lost")] if gap else []
    quarantined = Unread(slot=Slot(5), signature=None, program="raydium_v4", reason="bad_layout")
    async with market_in(folder) as opened:
        await opened.store.start(mints=[WSOL], follows_files=False)
        await opened.store.write(
            [NewSlot(header, []), FinalSlot(Slot(5)), *gaps, *([quarantined] * 3 if unread else [])]
        )


async def market_findings(folder: Path, age_s: int) -> list[Finding]:
    clock = ManualClock(UnixMs((NOW + age_s) * 1000))
    return await asyncio.to_thread(lambda: list(check_market(Config(data_dir=folder), clock)))


async def test_an_old_market_is_a_warning_and_an_older_one_fails(tmp_path: Path) -> None:
    assert levels(await market_findings(tmp_path, 0)) == [Level.OK]
    await market(tmp_path)

    assert levels(await market_findings(tmp_path, 2)) == [Level.OK]
    assert levels(await market_findings(tmp_path, 31)) == [Level.WARN]
    assert levels(await market_findings(tmp_path, 301)) == [Level.FAIL]


async def test_the_disk_space_of_a_day_and_of_the_retention_is_reported(tmp_path: Path) -> None:
    async with market_in(tmp_path) as market:
        await market.store.start(mints=[WSOL], follows_files=False)
        for number in range(121):  # a swap in each minute of two hours
            at = UnixS(NOW - 60 * (120 - number))
            swap = PricedSwap(WSOL, 0, 0, -1, 0, is_buy=True, volume=1, price_usd=1, price_sol=1)
            header = SlotHeader(Slot(number), Slot(number - 1), f"{number}", at)
            await market.store.write([NewSlot(header, [swap]), FinalSlot(Slot(number))])
        await fold_all(market)

    (_, disk) = await market_findings(tmp_path, 2)

    # Candles of m1, m5, m15 and h1 in these two hours, times 12; their retention in days.
    day = 12 * (121 + 25 + 9 + 3)
    kept = 12 * (3 * 121 + 14 * 25 + 45 * 9 + 180 * 3)
    assert disk.level is Level.OK
    found = re.findall(r"about ([\d,]+) candles, ([\d.]+) GiB; .* ([\d.]+) GiB", disk.what)
    ((candles, gib, kept_gib),) = found
    assert abs(int(candles.replace(",", "")) - day) <= day // 50
    assert float(gib) == pytest.approx(day * 120 / 1024**3, abs=0.006)
    assert float(kept_gib) == pytest.approx(kept * 120 / 1024**3, abs=0.006)


async def test_gaps_are_reported(tmp_path: Path) -> None:
    await market(tmp_path, gap=True)

    _, gap = await market_findings(tmp_path, 2)

    assert "1 gaps, 4 slots without blocks, the newest at slot 9" in gap.what
    assert "ingest fills the gaps automatically" in gap.fix
    async with market_in(tmp_path) as opened:
        (mend,) = await opened.gap_mends.newest(1)
        await opened.gap_mends.give_up(mend.gap, UnixMs(NOW * 1000), "no block")
    _, gap = await market_findings(tmp_path, 2)
    assert gap.what.endswith("slot 9; 1 given up")
    assert "mintscope gaps fill" in gap.fix


async def test_a_market_that_is_no_database_fails(tmp_path: Path) -> None:
    (tmp_path / "market.sqlite").write_text("not a database" * 100)

    (finding,) = await market_findings(tmp_path, 2)

    assert finding.level is Level.FAIL
    assert "it is not one" in finding.what


async def make_money(folder: Path) -> None:
    async with money_in(folder) as money:
        assert await money.credits.page() == []


def test_money_needs_its_own_pepper(tmp_path: Path) -> None:
    pepper = tmp_path / "pepper"
    config = Config(data_dir=tmp_path)

    assert levels(list(check_money(config))) == [Level.OK]
    pepper.touch(mode=0o600)
    (emptied,) = check_money(config)
    assert emptied.level is Level.FAIL
    assert "--new" in emptied.fix
    pepper.unlink()
    asyncio.run(make_money(tmp_path))
    assert levels(list(check_money(config))) == [Level.FAIL]
    pepper.touch(mode=0o600)
    pepper.write_text(PEPPER.hex())
    assert levels(list(check_money(config))) == [Level.OK]
    pepper.write_text(PEPPER[::-1].hex())
    assert levels(list(check_money(config))) == [Level.FAIL]
    pepper.unlink()
    configured = Config(data_dir=tmp_path, credits=CreditsConfig(pepper=SecretStr(PEPPER.hex())))
    assert levels(list(check_money(configured))) == [Level.OK]


def test_a_damaged_file_of_money_is_to_be_restored(tmp_path: Path) -> None:
    asyncio.run(make_money(tmp_path))
    file = tmp_path / "money.sqlite"
    file.write_bytes(file.read_bytes()[:100].ljust(file.stat().st_size, b"\xff"))
    config = Config(data_dir=tmp_path, credits=CreditsConfig(pepper=SecretStr(PEPPER.hex())))

    (damaged,) = check_money(config)
    assert "malformed" in damaged.what
    assert damaged.fix == "restore database and pepper from the same backup"


def test_the_check_of_money_in_a_new_database_is_ok(tmp_path: Path) -> None:
    config = Config(data_dir=tmp_path / "data", store=SecretStr(url_in(tmp_path)))

    (new,) = check_money(config)
    assert new.level is Level.OK
    assert not (tmp_path / "data").exists()


def test_a_database_that_is_down_does_not_end_the_other_checks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    genesis = Genesis(0)
    with node(**healthy(SystemClock().now() // 1000)) as url:
        settings = {
            "STORE": "postgresql://127.0.0.1:1/none",
            "CHAIN__RPC_URL": url,
            "PAYMENTS__ENABLED": "true",
            "PAYMENTS__PAY_TO": str(genesis.treasury.pubkey()),
            "PAYMENTS__FEE_PAYER_KEY": str(genesis.fee_payer),
        }
        for name, value in settings.items():
            monkeypatch.setenv(f"MINTSCOPE_{name}", value)
        asked = CliRunner().invoke(app, [])

    assert asked.exit_code == 1
    assert isinstance(asked.exception, SystemExit)
    lines = asked.output.splitlines()
    assert not [line for line in lines if not re.match(r"(ok  |warn|FAIL)  \w", line)], lines
    assert [line for line in lines if re.match("FAIL  money: the database does not", line)]
    assert [line for line in lines if "mail: " in line], "a check after it"


def test_a_bug_in_a_check_is_a_finding() -> None:
    def check_of_luck(_config: Config) -> Iterator[Finding]:
        yield ok("luck: so far")
        raise ZeroDivisionError

    fine, bug = _guarded(check_of_luck, Config())
    assert fine.level is Level.OK
    assert str(bug).startswith("FAIL  of luck: this check failed: ZeroDivisionError()")


def test_the_command_exits_0_if_all_checks_are_ok(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with node(**healthy(SystemClock().now() // 1000)) as url:
        (tmp_path / "mintscope.toml").write_text(
            f'[chain]\nrpc_url = "{url}"\n[api]\nport = 0\n[metrics]\nenabled = false\n'
            '[mail]\ndelivery = "page"\n'
        )
        result = CliRunner().invoke(app, [])

    assert result.exit_code == 0, result.output
    assert all(line.startswith("ok    ") for line in result.output.splitlines())


def test_the_command_exits_1_and_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mintscope.toml").write_text('[chain]\nsource = "files"\nfiles = ["nowhere"]\n')
    broken = CliRunner().invoke(app, [])
    (tmp_path / "mintscope.toml").write_text("[chain]\nsource = 3\n")
    misconfigured = CliRunner().invoke(app, [])

    assert broken.exit_code == misconfigured.exit_code == 1
    assert "FAIL  blocks: nowhere: cannot be read" in broken.output
    assert "FAIL  configuration: chain.source (mintscope.toml)" in misconfigured.output


def test_the_command_prints_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mintscope.toml").write_text('[chain]\nsource = "files"\nfiles = ["nowhere"]\n')
    result = CliRunner().invoke(app, ["--json"])
    findings = json.loads(result.stdout)

    assert result.exit_code == 1
    assert findings[0] == {"level": "ok", "what": "configuration: mintscope.toml", "fix": ""}
    assert {
        "level": "fail",
        "what": "blocks: nowhere: cannot be read: No such file or directory",
        "fix": "see chain.files",
    } in findings


def test_a_package_that_was_installed_by_its_name_fails(tmp_path: Path) -> None:
    for name in ("mintscope", "mintscope_client"):
        info = tmp_path / f"{name}-0.1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1.0\n")
        (info / "direct_url.json").write_text('{"url": "file:///dist", "dir_info": {}}')
    (found,) = check_packages(Config(), [str(tmp_path)])
    assert found.level is Level.OK
    (tmp_path / "mintscope_client-0.1.0.dist-info" / "direct_url.json").unlink()
    (found,) = check_packages(Config(), [str(tmp_path)])
    assert found.level is Level.FAIL
    assert "mintscope-client installed by name" in found.what
    assert "--no-deps --force-reinstall" in found.fix
