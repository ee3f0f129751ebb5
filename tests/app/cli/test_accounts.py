"""The commands `mintscope applications`, `mintscope users` and `mintscope admin`."""

import asyncio
import json
import os
import pty
import re
import sys
from pathlib import Path
from subprocess import Popen
from typing import Any, Final

import apsw
import pytest
from typer.testing import CliRunner, Result

from mintscope.accounts.keys.keys import OwnKeys
from mintscope.accounts.keys.scope import READ_SCOPES, Scope
from mintscope.accounts.passwords import Argon2Hasher
from mintscope.accounts.signups.application import parse_form
from mintscope.accounts.signups.signups import Signup
from mintscope.app.cli.app import app
from mintscope.app.cli.output import visible
from mintscope.kit.clock import ManualClock
from support.oracles.account_books import rows
from support.scenes.accounts_service import Accounts, open_accounts_service, signup_body
from support.scenes.service import NOW
from support.scenes.stores import PEPPER

EMAIL: Final = "root@example.org"
PASSWORD: Final = "a long pass phrase"
QUESTION: Final = "Password: |Repeat for confirmation: "
TAKE_TERMINAL: Final = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
FORM: Final = parse_form(
    signup_body(
        telegram="@agent", motivation="To trade.\nAlone \N{RIGHT-TO-LEFT OVERRIDE}and \U0001f469."
    )
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of an installation whose application 1 has a confirmed e-mail address."""
    folder = tmp_path / "installation"
    folder.mkdir()
    asyncio.run(with_services(folder, _confirm))
    return folder


async def with_services(folder: Path, work: Any) -> Any:
    async with open_accounts_service(folder, pepper=PEPPER, clock=ManualClock(NOW)) as accounts:
        return await work(accounts)


async def _confirm(accounts: Accounts) -> Signup:
    made = await accounts.signup.apply(FORM, redelivery_key="the-key-of-the-agent-0")
    await accounts.signup.confirm_by_code(FORM.email, made.secret, accounts.code())
    return made


async def _exchange(accounts: Accounts) -> str:
    made = await accounts.signup.apply(FORM, redelivery_key="the-key-of-the-agent-0")
    applicant = await accounts.exchange.recognise(FORM.email, made.secret)
    assert applicant is not None
    issued = await accounts.exchange.exchange(applicant, made.secret, redelivery_key=None)
    return issued.api_key


async def _request(accounts: Accounts) -> str:
    """Approve the application, exchange it for a key, and request two scopes; return the key."""
    await accounts.approve(1)
    key = await _exchange(accounts)
    holder = await accounts.keys.find(key)
    assert holder is not None
    wanted = frozenset({Scope.TRADE_WRITE, Scope.SIGNALS_WRITE})
    await OwnKeys(accounts.keys).ask(holder, wanted, "To buy credits.\nBy myself.")
    return key


def scopes_of(folder: Path, key: str) -> frozenset[Scope]:
    holder = asyncio.run(with_services(folder, lambda accounts: accounts.keys.find(key)))
    assert holder is not None
    return frozenset(holder.key.scopes)


def shown(folder: Path) -> dict[str, str]:
    """Return the facts about application 1, by name, as `applications show` prints them."""
    facts, _, _ = well(folder, "applications", "show", "1").partition("\nmotivation\n")
    return {line[:13].strip(): line[15:] for line in facts.splitlines()}


def run(folder: Path, *arguments: str, typed: str | None = None) -> Result:
    environment = {"MINTSCOPE_DATA_DIR": str(folder)}
    return CliRunner().invoke(app, list(arguments), env=environment, input=typed)


def well(folder: Path, *arguments: str, typed: str | None = None) -> str:
    """Run `mintscope` with *arguments* and the input *typed*, expect success, return its output."""
    result = run(folder, *arguments, typed=typed)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def test_an_application_is_approved_exchanged_reset_and_deleted(folder: Path) -> None:
    listed = well(folder, "applications", "list").splitlines()
    assert listed[1].split() == [
        "1",
        "awaiting_approval",
        "2025-06-15T15:06:40Z",
        "trader",
        "agent@example.org",
    ]

    reported = well(folder, "applications", "approve", "1", "--scopes", "groups:write, trade:write")
    scopes = "trade:read, trade:write, wallets:read, signals:read, groups:read, groups:write"
    assert reported.splitlines() == [
        "approved application 1 of agent@example.org",
        f"its key will have {scopes}",
    ]
    assert len(well(folder, "applications", "list").splitlines()) == 1
    assert "approved" in well(folder, "applications", "list", "--state", "all")
    asyncio.run(with_services(folder, _exchange))
    assert "key_issued" in well(folder, "applications", "list", "--state", "key_issued")

    users = well(folder, "users", "list").splitlines()
    assert users[1].split()[:2] == ["1", "agent"]

    assert "may exchange" in well(folder, "applications", "reset", "1")
    asyncio.run(with_services(folder, _exchange))
    assert well(folder, "users", "remove", "1") == "removed user 1\n"
    assert "key_issued, account removed" in well(folder, "applications", "show", "1")
    assert well(folder, "applications", "forget", "1") == "deleted application 1\n"
    assert len(well(folder, "applications", "list", "--state", "all").splitlines()) == 1


def test_everything_about_an_application_is_shown(folder: Path) -> None:
    well(folder, "applications", "reject", "1", "--note", "unknown to us")

    facts, _, motivation = well(folder, "applications", "show", "1").partition("\nmotivation\n")

    shown = {line[:13].strip(): line[15:] for line in facts.splitlines()}
    assert shown["state"] == "rejected"
    assert shown["telegram"] == "@agent"
    assert shown["twitter"] == "-"
    assert shown["by"] == "command line"
    assert shown["note"] == "unknown to us"
    assert shown["key issued"] == "-"
    assert motivation.splitlines() == ["  To trade.", "  Alone \\u202eand \U0001f469."]


def test_the_scopes_of_a_form_are_shown(folder: Path) -> None:
    form = parse_form(signup_body("b@example.org", scopes=["groups:write", "trade:write"]))
    asyncio.run(
        with_services(folder, lambda accounts: accounts.signup.apply(form, redelivery_key=None))
    )

    found = json.loads(well(folder, "applications", "show", "2", "--json"))

    assert found["askedScopes"] == "trade:write, groups:write"
    assert found["keyAsked"] is found["askedWhy"] is None


def test_a_request_of_a_key_is_shown_until_it_is_decided(folder: Path) -> None:
    asyncio.run(with_services(folder, _request))

    asked = shown(folder)
    well(folder, "applications", "reject", "1")

    assert asked["asked scopes"] == "trade:write, signals:write"
    assert asked["key asked"] == "2025-06-15T15:06:40Z"
    assert asked["asked why"] == "To buy credits.\\nBy myself."
    assert shown(folder)["key asked"] == shown(folder)["asked why"] == "-"


@pytest.mark.parametrize(
    ("options", "added"),
    [
        ([], {Scope.TRADE_WRITE, Scope.SIGNALS_WRITE}),
        (["--scopes", "trade:write"], {Scope.TRADE_WRITE}),
        (["--scopes", ""], set()),
    ],
)
def test_a_key_gets_the_scopes_that_it_requested_unless_others_are_named(
    folder: Path, options: list[str], added: set[Scope]
) -> None:
    key = asyncio.run(with_services(folder, _request))

    reported = well(folder, "applications", "approve", "1", *options).splitlines()

    assert scopes_of(folder, key) == READ_SCOPES | added
    assert reported[0] == "granted the request of application 1 of agent@example.org"
    assert reported[1].startswith("its key has trade:read, ")
    assert [scope in reported[1] for scope in added] == [True] * len(added)
    assert len(well(folder, "applications", "list").splitlines()) == 1


def test_a_refused_request_adds_nothing_to_the_key(folder: Path) -> None:
    key = asyncio.run(with_services(folder, _request))

    reported = well(folder, "applications", "reject", "1")

    assert reported == "refused the request of application 1 of agent@example.org\n"
    assert scopes_of(folder, key) == READ_SCOPES


def test_control_characters_of_an_applicant_are_escaped_in_the_output(folder: Path) -> None:
    db = apsw.Connection(str(folder / "money.sqlite"))
    evil = "\x1b]0;owned\x07\x1b[2J\x9b31m\r\b\N{RIGHT-TO-LEFT OVERRIDE}\u200b\u2028"
    db.execute("UPDATE application SET email = ?1, twitter = ?1, motivation = ?1", (evil,))
    db.close()

    for arguments in (("list",), ("show", "1"), ("approve", "1"), ("reset", "1")):
        result = run(folder, "applications", *arguments)
        assert set(result.stdout + result.stderr) - {"\n"} == {
            sign for sign in result.stdout + result.stderr if sign.isprintable()
        }
    assert "\\x1b]0;owned\\x07" in well(folder, "applications", "show", "1")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain é 👩", "plain é 👩"),
        ("\x1b[2J", "\\x1b[2J"),
        ("a\nb\tc", "a\\nb\\tc"),
        ("\x7f", "\\x7f"),
    ],
)
def test_control_characters_are_made_visible(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_an_unconfirmed_application_needs_the_option_unconfirmed(folder: Path) -> None:
    asyncio.run(
        with_services(
            folder,
            lambda accounts: accounts.signup.apply(
                parse_form(signup_body("b@example.org")), redelivery_key=None
            ),
        )
    )

    refused = run(folder, "applications", "approve", "2")
    assert refused.exit_code == 1
    assert refused.stderr.strip() == (
        "expected an application that awaits approval;"
        " application 2 awaits the confirmation of its e-mail address"
    )
    assert "approved application 2" in well(folder, "applications", "approve", "2", "--unconfirmed")
    events = rows(folder / "money.sqlite", "SELECT actor, detail FROM account_event ORDER BY id")
    assert events[-1][0] == "command line"
    assert '"mailbox":"unconfirmed"' in events[-1][1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("applications", "list", "--state", "new"), "--state"),
        (("applications", "show"), "NUMBER"),
        (("applications", "show", "7"), "NUMBER"),
        (("applications", "show", "0"), "NUMBER"),
        (("applications", "show", "one"), "NUMBER"),
        (("applications", "show", "9" * 30), "NUMBER"),
        (("applications", "approve", "1", "--scopes", "trade:steal"), "--scopes"),
        (("applications", "approve", "1", "--note", "a" * 2_001), "--note"),
        (("applications", "reject", "1", "--note", "\x1b[2J"), "--note"),
        (("users", "remove", "-1"), "-1"),
        (("admin", "create", "root"), "EMAIL"),
    ],
)
def test_bad_input_is_one_message_and_exit_2(
    folder: Path, arguments: tuple[str, ...], message: str
) -> None:
    result = run(folder, *arguments)

    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("applications", "approve", "7"), "there is no application with the number 7"),
        (("applications", "reset", "1"), "expected an application that has its key already;"),
        (("applications", "forget", "7"), "there is no application with the number 7"),
        (("users", "remove", "7"), "there is no account with the number 7"),
    ],
)
def test_an_impossible_command_prints_one_line_and_exits_1(
    folder: Path, arguments: tuple[str, ...], message: str
) -> None:
    result = run(folder, *arguments)

    assert result.exit_code == 1
    assert result.stderr.startswith(message)
    assert len(result.stderr.splitlines()) == 1
    assert result.stdout == ""


def test_a_file_that_is_not_a_database_is_one_line_and_exit_1(tmp_path: Path) -> None:
    (tmp_path / "money.sqlite").write_text("this is no database, however long it is " * 99)

    result = run(tmp_path, "users", "list")

    assert result.exit_code == 1
    assert "expected an SQLite database" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_lists_are_printed_as_json(folder: Path) -> None:
    (application,) = json.loads(well(folder, "applications", "list", "--json"))
    well(folder, "admin", "create", EMAIL, typed=f"{PASSWORD}\n")
    (user,) = json.loads(well(folder, "users", "list", "--json"))

    assert application.pop("applied").endswith("Z")
    assert application == {
        "number": 1,
        "state": "awaiting_approval",
        "userType": "trader",
        "email": FORM.email,
    }
    assert (user["number"], user["kind"], user["email"]) == (1, "administrator", EMAIL)
    assert user["verified"] is None
    assert json.loads(well(folder, "applications", "list", "--state", "rejected", "--json")) == []


def test_a_store_that_does_not_answer_is_one_line_and_exit_1(folder: Path) -> None:
    db = apsw.Connection(str(folder / "money.sqlite"))
    db.execute("DROP TABLE account_event")
    db.close()

    result = run(folder, "applications", "approve", "1")

    assert result.exit_code == 1
    assert result.stderr.startswith("The accounts are not available right now.")
    assert "account_event" in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert result.stdout == ""


def test_the_first_administrator_gets_the_password_from_standard_input(tmp_path: Path) -> None:
    folder = tmp_path / "new"

    reported = well(folder, "admin", "create", "Root@Example.org", typed=f"{PASSWORD}\nmore\n")

    assert reported == f"made an account for {EMAIL}, who is now an administrator\n"
    assert well(folder, "users", "list").splitlines()[1].split()[:2] == ["1", "administrator"]
    assert matches(folder, PASSWORD)
    assert "is the last administrator" in run(folder, "users", "remove", "1").stderr


def test_admin_create_takes_over_an_account_without_a_verified_address(tmp_path: Path) -> None:
    well(tmp_path, "admin", "create", EMAIL, typed="a strangers password\n")

    reported = well(tmp_path, "admin", "create", EMAIL, typed=f"{PASSWORD}\n")

    assert (
        "the password was replaced, and all sessions and keys of the account have ended" in reported
    )
    assert matches(tmp_path, PASSWORD)


def test_an_account_with_a_verified_address_keeps_its_password(tmp_path: Path) -> None:
    well(tmp_path, "admin", "create", EMAIL, typed="her own password\n")
    db = apsw.Connection(str(tmp_path / "money.sqlite"))
    db.execute("UPDATE user SET verified_at = 1")
    db.close()

    reported = well(tmp_path, "admin", "create", EMAIL, typed=f"{PASSWORD}\n")

    assert reported == f"{EMAIL} is an administrator; the password was not changed\n"
    assert matches(tmp_path, "her own password")


@pytest.mark.parametrize("typed", ["", "\n", "short\n", "aaaaaaaaaaaaaaaa\n", f"{EMAIL}\n"])
def test_a_weak_password_is_refused(tmp_path: Path, typed: str) -> None:
    result = run(tmp_path, "admin", "create", EMAIL, typed=typed)

    assert result.exit_code == 2
    assert "the password" in result.stderr
    assert not (tmp_path / "money.sqlite").exists()


def matches(folder: Path, password: str) -> bool:
    ((stored,),) = rows(folder / "money.sqlite", "SELECT password_hash FROM user")

    async def compare() -> bool:
        hasher = Argon2Hasher()
        try:
            return await hasher.matches(password, stored)
        finally:
            hasher.close()

    return asyncio.run(compare())


@pytest.mark.process
@pytest.mark.parametrize("again", [PASSWORD, "another pass phrase"])
def test_a_terminal_asks_for_the_password_twice_and_does_not_show_it(
    tmp_path: Path, again: str
) -> None:
    lines = [PASSWORD, again] if again == PASSWORD else [PASSWORD, again, PASSWORD, PASSWORD]

    shown = on_terminal(tmp_path, lines, "admin", "create", EMAIL)

    assert shown.count("Password:") == len(lines) // 2
    assert f"made an account for {EMAIL}" in shown
    assert PASSWORD not in shown
    assert again not in shown
    assert matches(tmp_path, PASSWORD)


def on_terminal(folder: Path, lines: list[str], *arguments: str) -> str:
    """Run a command in a terminal, answer its questions with *lines*, and return the output."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", TAKE_TERMINAL, "-m", "mintscope", *arguments]
    environment = {**os.environ, "MINTSCOPE_DATA_DIR": str(folder)}  # noqa: TID251 - of a child
    with Popen(
        command,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment,
        start_new_session=True,
    ) as process:
        os.close(theirs)
        shown = ""
        asked = 0
        while text := _read(ours):
            shown += text
            while len(re.findall(QUESTION, shown)) > asked and lines[asked:]:
                os.write(ours, lines[asked].encode() + b"\n")
                asked += 1
        assert process.wait(30) == 0, shown
    os.close(ours)
    return shown


def _read(terminal: int) -> str:
    try:
        return os.read(terminal, 4096).decode()
    except OSError:  # Linux raises this when the other end is closed
        return ""
