"""`mintscope credits` issues credit tokens, lists them, and refuses bad input with one message."""

import asyncio
import json
from pathlib import Path
from secrets import token_bytes

import pytest
from typer.testing import CliRunner, Result

from mintscope.app.cli.app import app
from mintscope.app.config.groups import Config
from mintscope.app.stores.stores import open_money
from mintscope.credits.ledger import Spent
from mintscope.kit.clock import ManualClock
from mintscope.kit.credentials import CredentialKind, is_well_formed
from support.scenes.service import NOW


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "installation"


def run(folder: Path, *arguments: str) -> Result:
    environment = {"MINTSCOPE_DATA_DIR": str(folder)}
    return CliRunner().invoke(app, ["credits", *arguments], env=environment)


async def in_thread(folder: Path, *arguments: str) -> Result:
    """Run a `mintscope` command in a thread, because it runs an event loop of its own."""
    return await asyncio.to_thread(run, folder, *arguments)


async def test_a_token_issued_while_the_service_runs_is_valid_at_once(folder: Path) -> None:
    async with open_money(Config(data_dir=folder), ManualClock(NOW)) as money:
        ledger = money.ledger
        result = await in_thread(folder, "issue", "--credits", "5", "--note", "for the demo")
        token = result.stdout.strip()
        assert is_well_formed(CredentialKind.CREDIT_TOKEN, token)
        assert "Shown once" in result.stderr
        account = await ledger.find(token)
        assert account is not None
        assert await ledger.spend(account) == Spent(4)

    assert token not in (await in_thread(folder, "list")).stdout
    shown = (await in_thread(folder, "show", token[-8:])).stdout
    assert f"...{token[-8:]}  4 credits left  for the demo" in shown
    assert "grant" in shown
    assert "spend" in shown


def test_the_list_names_every_token_by_its_last_digits(folder: Path) -> None:
    tokens = [run(folder, "issue", "--credits", str(n)).stdout.strip() for n in (1, 2, 3)]
    listed = run(folder, "list").stdout.splitlines()[1:]

    assert [line.split()[1] for line in listed] == [f"...{token[-8:]}" for token in tokens]
    assert [line.split()[3:5] for line in listed] == [[str(n), str(n)] for n in (1, 2, 3)]


def test_credit_tokens_are_shown_a_page_at_a_time(folder: Path) -> None:
    tokens = [run(folder, "issue", str(n)).stdout.strip() for n in (1, 2, 3)]
    first = run(folder, "show", "", "--limit", "2")
    assert [line.split()[0] for line in first.stdout.splitlines() if line.startswith("...")] == [
        f"...{token[-8:]}" for token in tokens[:2]
    ]
    assert first.stderr == "there are more: --after 2\n"
    second = run(folder, "show", "", "--after", "2")
    assert f"...{tokens[2][-8:]}  3 credits left" in second.stdout
    assert second.stderr == ""


def test_credits_issue_takes_the_number_of_credits_as_an_argument(folder: Path) -> None:
    token = run(folder, "issue", "7", "--note", "seven").stdout.strip()
    (listed,) = json.loads(run(folder, "list", "--json").stdout)

    assert listed.pop("issued").endswith("Z")
    assert listed == {
        "number": 1,
        "token": f"...{token[-8:]}",
        "credits": 7,
        "left": 7,
        "note": "seven",
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("issue",), "CREDITS"),
        (("issue", "5", "--credits", "5"), "CREDITS"),
        (("issue", "0"), "'CREDITS': expected at least 1; was '0'"),
        (("issue", "--credits", "0"), "'--credits': expected at least 1; was '0'"),
        (("issue", "--credits", "-5"), "'--credits': expected at least 1; was '-5'"),
        (("issue", "--credits", "1000000001"), "'--credits': expected at most 1000000000"),
        (("issue", "--credits", "many"), "'--credits': expected an integer; was 'many'"),
        (("issue", "--credits", "1.5"), "'--credits': expected an integer; was '1.5'"),
        (("issue", "--credits", "1", "--note", "a" * 201), "--note"),
        (("issue", "--credits", "1", "--note", "a\nb"), "--note"),
        (("show", "zzzz"), "HINT"),
        (("show", "%"), "HINT"),
    ],
)
def test_bad_input_is_one_message_and_exit_2(
    folder: Path, arguments: tuple[str, ...], message: str
) -> None:
    run(folder, "issue", "--credits", "1")
    result = run(folder, *arguments)

    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("name", ["money.sqlite", "pepper"])
def test_a_file_with_other_content_is_refused_with_one_message(folder: Path, name: str) -> None:
    folder.mkdir()
    (folder / name).write_bytes(b"something else " * 500)

    result = run(folder, "issue", "--credits", "1")

    assert result.exit_code == 1
    assert len(result.stderr.strip().splitlines()) == 1
    assert name in result.stderr
    assert result.stdout == ""


def test_another_pepper_than_that_of_the_store_is_refused(folder: Path) -> None:
    run(folder, "issue", "--credits", "1")
    (folder / "pepper").write_text(token_bytes(32).hex())

    result = run(folder, "issue", "--credits", "1")

    assert (result.exit_code, result.stdout) == (1, "")
    assert "pepper" in result.stderr


def test_a_data_dir_that_is_a_file_is_refused_with_a_message(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("not a folder")
    result = run(file, "issue", "--credits", "1")
    assert result.exit_code == 1
    assert f"expected a database file at {file / 'money.sqlite'}; cannot open it" in result.output
