"""`mintscope get` against a real service: its output, and the exit codes of client commands."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from mintscope.app.cli.app import app
from mintscope.app.config.load import CLIENT_VARIABLES
from mintscope.kit.credentials import make_credit_token
from mintscope.solana.blocks import USDT, WSOL
from mintscope_client import errors
from mintscope_client.cli.connection import (
    CREDENTIAL_VARIABLE,
    FILE_VARIABLE,
    URL_VARIABLE,
    Exit,
    exit_of,
)
from support.fakes import reports
from support.fakes.raw_server import raw_server, whole
from support.processes.listening import listening
from support.scenes.service import Service, running_service
from support.scenes.whole_report import whole_report

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "clients.md").read_text()
UNKNOWN = make_credit_token(b"\7" * 28)

Run = Callable[..., Awaitable[Result]]


@pytest.fixture
async def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Service]:
    monkeypatch.setattr(reports, "REPORT", whole_report())
    async with running_service(tmp_path) as service:
        yield service


@pytest.fixture
async def run(service: Service) -> AsyncIterator[Run]:
    async with listening(service.app) as url:

        async def run(*words: str, **environment: str) -> Result:
            given = {URL_VARIABLE: url} | environment
            return await asyncio.to_thread(CliRunner().invoke, app, words, env=given)

        yield run


async def test_a_report_is_printed_as_a_table_and_as_json(service: Service, run: Run) -> None:
    token = await service.issue(2)

    table = await run("get", WSOL, **{CREDENTIAL_VARIABLE: token})
    asked = await run("get", WSOL, "--json", **{CREDENTIAL_VARIABLE: token})

    assert (table.exit_code, asked.exit_code) == (Exit.OK, Exit.OK)
    assert table.stdout.startswith(f"{WSOL}\n87 USD, 88 SOL\n")
    assert "1 credits left" in table.stderr
    assert json.loads(asked.stdout) == json.loads(whole_report()) | {"coverage": None}
    assert token not in table.output + asked.output


async def test_a_report_sends_no_commands_to_the_terminal(service: Service, run: Run) -> None:
    hostile = json.loads(whole_report()) | {"token": "\x1b]0;x\x07"}
    service.reports.body = json.dumps(hostile).encode()

    table = await run("get", WSOL, **{CREDENTIAL_VARIABLE: await service.issue(1)})

    assert table.stdout.startswith("\\x1b]0;x\\x07\n")


async def test_a_credential_comes_from_a_file_too(
    service: Service, run: Run, tmp_path: Path
) -> None:
    file = tmp_path / "credential"
    file.write_text(await service.issue(2) + "\n")

    by_option = await run("get", WSOL, "--credential-file", str(file))
    by_variable = await run("get", WSOL, **{FILE_VARIABLE: str(file)})

    assert (by_option.exit_code, by_variable.exit_code) == (Exit.OK, Exit.OK)


async def test_a_volume_of_zero_is_printed_as_zero_and_an_unknown_one_as_a_dash() -> None:
    prices = {"o": 1.0, "h": 2.0, "l": 1.0, "c": 2.0, "sol": None, "isOpen": False}
    sold = {"volume": 5.0, "buyVolume": 0.0, "sellVolume": 5.0, "swaps": 1, "imported": False}
    past = {"volume": 5.0, "buyVolume": None, "sellVolume": None, "swaps": None, "imported": True}
    candles = [{"t": 1_763_460_000} | prices | past, {"t": 1_763_460_060} | prices | sold]
    page = {"data": {"token": WSOL, "tf": "m1", "candles": candles, "nextCursor": None}}
    async with raw_server(whole(json.dumps(page).encode())) as url:
        words = ["candles", WSOL, "--url", url]
        table = await asyncio.to_thread(CliRunner().invoke, app, words)

    _, *lines = table.stdout.splitlines()
    assert [line.split()[5:] for line in lines] == [
        ["5", "-", "-", "-", "yes"],
        ["5", "0", "5", "1", "-"],
    ]


async def test_each_failure_has_its_exit_code(service: Service, run: Run, tmp_path: Path) -> None:
    token = {CREDENTIAL_VARIABLE: await service.issue(1)}
    missing = str(tmp_path / "none")

    assert (await run("get", WSOL, "--max-credits", "0", **token)).exit_code == Exit.OVER_BUDGET
    assert (await run("get", USDT, **token)).exit_code == Exit.NOTHING_THERE
    assert (await run("get", "no mint at all", **token)).exit_code == Exit.USAGE
    assert (await run("get", WSOL, **{CREDENTIAL_VARIABLE: "nonsense"})).exit_code == Exit.USAGE
    assert (await run("get", WSOL, "--credential-file", missing)).exit_code == Exit.USAGE
    assert (await run("get", WSOL, **{CREDENTIAL_VARIABLE: UNKNOWN})).exit_code == Exit.CREDENTIAL
    assert (await run("get", WSOL)).exit_code == Exit.UNPAID
    assert (await run("get", WSOL, "--url", "http://a:b")).exit_code == Exit.USAGE
    nowhere = ("--url", "http://127.0.0.1:9", "--patience", "0.1")
    assert (await run("get", WSOL, *nowhere)).exit_code == Exit.UNREACHABLE
    assert (await run("get", WSOL, **token)).exit_code == Exit.OK
    refused = await run("get", WSOL, **token)
    assert refused.exit_code == Exit.UNPAID
    assert refused.stderr.startswith("mintscope: 402 INSUFFICIENT_CREDITS: ")


def test_the_errors_of_a_client_lead_to_every_exit_code() -> None:
    refusals = {kind("", status=400) for kind in errors.RefusedError.__subclasses__()}
    others = {
        errors.UnreachableError(""),
        errors.UnreadableError("", status=200),
        errors.OverBudgetError(""),
        errors.PendingError(""),
    }
    ends = {exit_of(each) for each in refusals | others}

    assert ends == set(Exit) - {Exit.OK}


def test_the_page_of_clients_lists_each_exit_code() -> None:
    reported = dict(re.findall(r"^\| (\d+) \| (.+) \|$", PAGE, re.MULTILINE))

    assert {int(number) for number in reported} == set(Exit)


def test_the_settings_of_a_server_know_the_variables_of_the_client() -> None:
    assert set(CLIENT_VARIABLES) == {URL_VARIABLE, CREDENTIAL_VARIABLE, FILE_VARIABLE}
