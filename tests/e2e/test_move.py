"""A service moves from SQLite to PostgreSQL and back: its books balance, its answers stay equal."""

import asyncio
import time
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx
import pytest
from typer.testing import CliRunner

from mintscope.app.cli.app import app
from mintscope.app.config.load import load
from mintscope.app.stores.stores import open_money
from mintscope.kit.clock import SystemClock
from support.processes.api_process import api_process, settings
from support.scenes.old_folder import FACTS, old_folder
from support.scenes.payments.audited import violations_of
from support.scenes.postgres import dsn_in, url_in

READY_S: Final = 60.0
SPENDER: Final = {"Authorization": f"Bearer {FACTS['token']}"}
AGENT: Final = {"Authorization": f"Bearer {FACTS['key']['apiKey']}"}
APPLICATION: Final = {
    "email": "approved@example.org",
    "applicationSecret": FACTS["approved_secret"],
}
# Headers that may differ between two requests: the window of a rate limit may end between them.
OF_THE_LIMIT: Final = {"ratelimit", "x-ratelimit-remaining", "x-ratelimit-reset"}
OF_THE_MOMENT: Final = {"date", "x-request-id", "x-data-age-ms", *OF_THE_LIMIT}
MINTS: Final = (FACTS["report"]["data"]["token"], FACTS["mint"])


class Answer(NamedTuple):
    """The answer to a client, without its time and the ID of the request."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def answer_of(response: httpx.Response) -> Answer:
    headers = {k: v for k, v in response.headers.items() if k not in OF_THE_MOMENT}
    body, _, meta = response.content.partition(b'"meta":{"timestamp":')
    return Answer(response.status_code, headers, body + meta.partition(b"}")[2])


def answers(client: httpx.Client) -> dict[str, Answer]:
    """Request stored data of each kind; return the answers.

    Reports come last, because they cost credits.
    """
    found = {
        path: answer_of(client.get(path, headers=headers))
        for path, headers in (
            ("/v1/credits/balance", SPENDER),
            ("/v1/credits/history", SPENDER),
            ("/v1/me", AGENT),
        )
    }
    status = client.post("/api/auth/application-status", json=APPLICATION)
    found["status of an application"] = answer_of(status)
    for mint in MINTS:
        found[mint] = answer_of(_report(client, mint))
    return found


def _report(client: httpx.Client, mint: str) -> httpx.Response:
    """Ask for a report until the market is loaded; until then an answer costs nothing."""
    until_s = time.monotonic() + READY_S
    while True:
        report = client.get(f"/v1/token/{mint}", headers=SPENDER)
        if report.status_code != 503 or time.monotonic() > until_s:
            return report


@pytest.fixture
def places(tmp_path: Path) -> dict[str, dict[str, str]]:
    """Move a service to PostgreSQL and back; return the settings of each of the three places."""
    dsn_in(tmp_path, kinds=())
    folder, back = old_folder(tmp_path / "old"), tmp_path / "back"
    there = url_in(tmp_path)
    upgraded = CliRunner().invoke(app, ["migrate"], env={"MINTSCOPE_DATA_DIR": str(folder)})
    assert upgraded.exit_code == 0, upgraded.output
    for source, target in ((f"sqlite:{folder}", there), (there, f"sqlite:{back}")):
        moved = CliRunner().invoke(app, ["copy", "--from", source, "--to", target])
        assert moved.exit_code == 0, moved.output
    (back / "pepper").write_text(FACTS["pepper"] + "\n")
    (back / "pepper").chmod(0o600)
    return {
        "SQLite": {"MINTSCOPE_DATA_DIR": str(folder)},
        "PostgreSQL": {"MINTSCOPE_DATA_DIR": str(folder), "MINTSCOPE_STORE": there},
        "SQLite again": {"MINTSCOPE_DATA_DIR": str(back)},
    }


async def audited(environment: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Audit the installation of *environment*; return the contradictions in its books."""
    with monkeypatch.context() as patched:
        for name, value in environment.items():
            patched.setenv(name, value)
        config = load(None).config
    async with open_money(config, SystemClock()) as money:
        violations = await violations_of(money.books)
        return [*violations, *await money.credits.contradictions()]


def test_a_service_moved_to_postgresql_and_back_gives_the_same_answers(
    places: dict[str, dict[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: dict[str, dict[str, Answer]] = {}
    for name, place in places.items():
        environment = settings(
            tmp_path,
            **place,
            MINTSCOPE_MAIL__DELIVERY="none",
            MINTSCOPE_API__ORIGIN="https://mintscope.example",
            MINTSCOPE_API__STALE_AFTER_S="86400",
            MINTSCOPE_API__DEGRADED_AFTER_S="86400",
        )
        assert asyncio.run(audited(place, monkeypatch)) == []
        with (
            api_process(environment, tmp_path / "log") as url,
            httpx.Client(base_url=url, timeout=READY_S) as client,
        ):
            found[name] = answers(client)

    failed = {what: answer for what, answer in found["SQLite"].items() if answer.status != 200}
    assert not failed
    for name, what in product(places, found["SQLite"]):
        answer, expected = found[name][what], found["SQLite"][what]
        assert answer.body == expected.body, (name, what)
        assert answer.headers == expected.headers, (name, what)
        assert answer == expected, (name, what)
