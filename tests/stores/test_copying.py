"""An installation is copied to another engine and back with every row and every trigger."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from hashlib import sha256
from pathlib import Path
from threading import Event, Thread
from typing import Any, Final

import apsw
import psycopg
import pytest
from typer.testing import CliRunner
from typing_extensions import override

from mintscope.app.cli.app import app
from mintscope.app.stores.copying import (
    PAGES,
    CannotCopy,
    Relation,
    SqliteSide,
    Sum,
    copy,
    copy_file,
    copy_files,
    copy_running,
    copy_secrets,
    has_password,
    named,
)
from mintscope.app.stores.folder import MARKET_FILE, MONEY_FILE, PEPPER_FILE, WEBHOOKS_FILE, held
from mintscope.app.stores.postgres import PostgresEngine
from mintscope.app.stores.postgres_side import PostgresSide
from mintscope.app.stores.sqlite import SqliteEngine
from mintscope.credits.ledger import Debit
from mintscope.credits.sqlite import CreditBook
from mintscope.kit.clock import SystemClock
from mintscope.kit.credentials import make_credit_token
from mintscope.kit.errors import UnusableStore
from mintscope.kit.primitives import CreditAccount
from mintscope.kit.sql.database import Row
from mintscope.kit.sql.processes import MarketNotices
from mintscope.kit.sql.sqlite import SqliteDatabase
from support.scenes.old_folder import FACTS, old_folder
from support.scenes.postgres import dsn_in, url_in

PEPPER: Final = bytes.fromhex(FACTS["pepper"])
ENTRY: Final = "INSERT INTO credit_entry (account, kind, delta, balance, at)"
FILES: Final = (MONEY_FILE, MARKET_FILE, WEBHOOKS_FILE)
# Tables that are not compared: the migrations, and the last numbers that SQLite has given.
OF_A_FILE: Final = {"migration", "sqlite_sequence"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return old_folder(tmp_path / "old")


def silent(_what: str, _count: int) -> None: ...


def dump(folder: Path) -> dict[str, list[Any]]:
    """Return every row of every table in *folder*, and every trigger, by name."""
    found: dict[str, list[Any]] = {}
    for name in FILES:
        with closing(apsw.Connection(str(folder / name))) as db:
            for table, kind, sql in db.execute("SELECT name, type, sql FROM sqlite_master"):
                if kind == "table" and table not in OF_A_FILE:
                    rows = db.execute(f'SELECT * FROM "{table}"').fetchall()
                    found[str(table)] = sorted(rows, key=repr)
                elif kind == "trigger":
                    found[f"trigger {table}"] = [sql]
    return found


def copied(source: SqliteSide | PostgresSide, target: SqliteSide | PostgresSide) -> dict[str, Sum]:
    with closing(source), closing(target):
        return copy(source, target, "the source", silent)


def test_every_row_is_the_same_after_a_copy_to_postgresql_and_back(
    folder: Path, tmp_path: Path
) -> None:
    dsn = dsn_in(tmp_path)
    account = begin_minute(folder)
    with closing(SqliteDatabase(folder / WEBHOOKS_FILE, "webhooks")) as db:
        db.execute("INSERT INTO webhook (firing, signal, fired_at) VALUES (7, 8, 9)")
    there = copied(SqliteSide(folder), PostgresSide(dsn, is_new=True))
    back = copied(PostgresSide(dsn), SqliteSide(tmp_path / "new", is_new=True))

    assert there == back
    assert dump(tmp_path / "new") == dump(folder)
    assert there["credit_entry"].rows > 0
    assert there["candle"].rows > 0
    assert there["payment"].rows > 0
    assert there["webhook"].rows == 1
    assert there["stream_minute"].rows == 1
    with closing(CreditBook(tmp_path / "new" / MONEY_FILE, pepper=PEPPER)) as book:
        book.rest(SystemClock().now())
        assert book.balance(account) == 5


def begin_minute(folder: Path) -> CreditAccount:
    """Take two of an account's five credits for a minute of a stream, as a process that dies."""
    now = SystemClock().now()
    with closing(CreditBook(folder / MONEY_FILE, pepper=PEPPER)) as book:
        account = book.issue(make_credit_token(bytes(28)), 5, note="", at=now)
        book.prepay([Debit(account, 2)], now)
        return account


def test_the_journal_is_protected_after_a_copy(folder: Path, tmp_path: Path) -> None:
    dsn = dsn_in(tmp_path)
    copied(SqliteSide(folder), PostgresSide(dsn, is_new=True))
    with psycopg.connect(dsn, autocommit=True) as db:
        for refused in (
            "UPDATE credit_entry SET delta = delta + 1",
            "DELETE FROM credit_account",
            f"{ENTRY} SELECT id, 'grant', 1, balance + 2, 0 FROM credit_account LIMIT 1",
            f"{ENTRY} VALUES (999999, 'grant', 1, 1, 0)",
        ):
            with pytest.raises(psycopg.Error):
                db.execute(refused.encode())
        (largest,) = db.execute("SELECT max(id) FROM credit_entry").fetchone() or (0,)
        (number,) = db.execute(
            "INSERT INTO credit_entry (account, kind, delta, balance, at)"
            " SELECT id, 'grant', 1, balance + 1, 0 FROM credit_account LIMIT 1 RETURNING id"
        ).fetchone() or (0,)
        unknown = db.execute("SELECT relname FROM pg_class WHERE reltuples < 0").fetchall()
    assert number > largest
    assert not {"credit_account", "credit_entry", "payment", "mint", "candle"} & {
        name for (name,) in unknown
    }


async def test_credits_are_the_same_after_a_copy(folder: Path, tmp_path: Path) -> None:
    dsn, clock = dsn_in(tmp_path), SystemClock()
    async with SqliteEngine(folder).open_money(
        pepper=PEPPER, pepper_file=folder / PEPPER_FILE, clock=clock
    ) as money:
        before = await money.credits.page()
    copied(SqliteSide(folder), PostgresSide(dsn, is_new=True))
    async with PostgresEngine(dsn).open_money(
        pepper=PEPPER, pepper_file=folder / PEPPER_FILE, clock=clock
    ) as money:
        assert await money.credits.page() == before
        assert await money.credits.contradictions() == []


class Stopping(PostgresSide):
    """The target database of a copy, which fails after it has received `parts_left` parts."""

    parts_left = 0

    @override
    def add(self, table: Relation, rows: Sequence[Row]) -> None:
        if not self.parts_left:
            raise ConnectionError("the operator has pressed Ctrl-C")
        self.parts_left -= 1
        super().add(table, rows)


def test_an_interrupted_copy_can_be_continued(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mintscope.app.stores.copying.ROWS_MAX", 3)
    dsn = dsn_in(tmp_path)
    for parts in range(1, 4):
        target = Stopping(dsn, is_new=True)
        target.parts_left = parts
        with pytest.raises(ConnectionError):
            copied(SqliteSide(folder), target)
        with pytest.raises(UnusableStore, match="is incomplete"):
            asyncio.run(_open(dsn, folder))
        with pytest.raises(UnusableStore, match="is incomplete"):
            PostgresSide(dsn)
    copied(SqliteSide(folder), PostgresSide(dsn, is_new=True))
    copied(PostgresSide(dsn), SqliteSide(tmp_path / "new", is_new=True))
    assert dump(tmp_path / "new") == dump(folder)


class Ending(SqliteSide):
    """The target of a copy that is interrupted once its first file is complete."""

    @override
    def end(self, sequences: Mapping[str, int]) -> None:
        files = self._files
        self._files = files[:1]
        try:
            super().end(sequences)
        finally:
            self._files = files
        raise ConnectionError("the operator has pressed Ctrl-C")


def test_a_copy_that_was_interrupted_at_its_end_can_be_continued(
    folder: Path, tmp_path: Path
) -> None:
    for _ in range(2):
        with pytest.raises(ConnectionError):
            copied(SqliteSide(folder), Ending(tmp_path / "new", is_new=True))
        with pytest.raises(UnusableStore, match="is incomplete"):
            SqliteSide(tmp_path / "new")
    copied(SqliteSide(folder), SqliteSide(tmp_path / "new", is_new=True))
    assert dump(tmp_path / "new") == dump(folder)


async def _open(dsn: str, folder: Path) -> None:
    async with PostgresEngine(dsn).open_money(
        pepper=PEPPER, pepper_file=folder / PEPPER_FILE, clock=SystemClock()
    ):
        pytest.fail("it is opened")


@pytest.mark.parametrize("content", [b"ab" * 32 + b"\r\n", b"\xff\xfe no text"])
def test_secrets_are_copied_byte_by_byte(content: bytes, tmp_path: Path) -> None:
    (tmp_path / PEPPER_FILE).write_bytes(content)
    copy_secrets(tmp_path, tmp_path / "copy")

    assert (tmp_path / "copy" / PEPPER_FILE).read_bytes() == content


def test_a_copy_can_be_continued_only_from_the_same_source(folder: Path, tmp_path: Path) -> None:
    target = Stopping(dsn_in(tmp_path), is_new=True)
    with pytest.raises(ConnectionError):
        copied(SqliteSide(folder), target)
    with (
        closing(PostgresSide(dsn_in(tmp_path), is_new=True)) as again,
        closing(SqliteSide(folder)) as source,
        pytest.raises(CannotCopy, match="the copy of the source; was asked to copy another"),
    ):
        copy(source, again, "another", silent)


@pytest.mark.parametrize("engine", ["sqlite", "postgresql"])
def test_a_target_with_rows_is_refused(engine: str, folder: Path, tmp_path: Path) -> None:
    other = old_folder(tmp_path / "other")
    if engine == "postgresql":
        copied(SqliteSide(other), PostgresSide(dsn_in(tmp_path), is_new=True))
    target = (
        SqliteSide(other, is_new=True)
        if engine == "sqlite"
        else PostgresSide(dsn_in(tmp_path), is_new=True)
    )
    with pytest.raises(CannotCopy, match="expected an empty target; there are rows in"):
        copied(SqliteSide(folder), target)


class Lying(SqliteSide):
    """A target database of a copy, which returns other balances than it has stored."""

    @override
    def rows(self, table: Relation, after: Sequence[object] | None, rows_max: int) -> Sequence[Row]:
        rows = super().rows(table, after, rows_max)
        if table.name != "credit_account" or not rows:
            return rows
        place = list(table.columns).index("balance")
        return [(*row[:place], row[place] + 1, *row[place + 1 :]) for row in rows]


def test_a_row_that_differs_is_found(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(CannotCopy, match=r"expected \d+ rows of credit_account"):
        copied(SqliteSide(folder), Lying(tmp_path / "other", is_new=True))


def mintscope(*words: str, **environment: str) -> tuple[int, str]:
    ran = CliRunner().invoke(app, words, env=environment)
    return ran.exit_code, ran.output


def test_a_copy_is_refused_while_a_service_runs_on_either_side(
    folder: Path, tmp_path: Path
) -> None:
    words = ("copy", "--from", f"sqlite:{folder}", "--to", url_in(tmp_path))
    with held(folder, "api"):
        code, said = mintscope(*words)
    assert code == 1
    assert f"expected no mintscope api in {folder}; one is running: stop it first" in said

    async def beside_a_service() -> tuple[int, str]:
        notices = MarketNotices(dsn_in(tmp_path))
        await notices.wait(0)
        try:
            return await asyncio.to_thread(mintscope, *words)
        finally:
            await notices.aclose()

    code, said = asyncio.run(beside_a_service())
    assert code == 1
    assert "expected no mintscope api on this database" in said


PASSWORD: Final = "k3pt-fr0m-the-screen"


@pytest.mark.parametrize(
    ("place", "was"),
    [
        (f"owner:{PASSWORD}@host/db", "another form"),
        (f"host=localhost password={PASSWORD}", "another form"),
        (f"mysql://o:{PASSWORD}@host/db", "mysql://..."),
    ],
)
def test_an_error_about_a_malformed_place_omits_its_password(
    place: str, was: str, tmp_path: Path
) -> None:
    code, said = mintscope("copy", "--from", place, "--to", f"sqlite:{tmp_path / 'new'}")
    assert code == 1
    assert f"expected sqlite:FOLDER or postgresql://...; was {was}" in " ".join(said.split())
    assert PASSWORD not in said


@pytest.mark.parametrize(
    "place",
    [f"postgresql://o:{PASSWORD}@host/db", f"postgresql://o@host/db?user=o&password={PASSWORD}"],
)
def test_a_password_in_a_url_is_detected(place: str) -> None:
    assert has_password(place)
    assert not has_password(place.replace(PASSWORD, "").replace(":@", "@"))


def test_an_installation_is_moved_by_copy_backup_and_restore(folder: Path, tmp_path: Path) -> None:
    url = url_in(tmp_path)
    assert mintscope("migrate", **settings(MINTSCOPE_DATA_DIR=str(folder)))[0] == 0
    code, said = mintscope("copy", "--from", f"sqlite:{folder}", "--to", url)
    assert code == 0, said
    assert "credit_entry" in said
    code, said = mintscope(
        *("backup", str(tmp_path / "backup")),
        **settings(MINTSCOPE_STORE=url, MINTSCOPE_DATA_DIR=str(folder)),
    )
    assert code == 0, said
    assert dump(tmp_path / "backup") == dump(folder)
    assert (tmp_path / "backup" / PEPPER_FILE).read_text() == FACTS["pepper"] + "\n"
    assert (tmp_path / "backup" / PEPPER_FILE).stat().st_mode & 0o777 == 0o600
    code, said = mintscope(
        *("restore", str(tmp_path / "backup")),
        **settings(MINTSCOPE_DATA_DIR=str(tmp_path / "restored")),
    )
    assert code == 0, said
    assert "mintscope sales orphans" in said
    assert dump(tmp_path / "restored") == dump(folder)
    code, said = mintscope("migrate", "--dry-run", **settings(MINTSCOPE_STORE=url))
    assert (code, said) == (0, "Nothing to do: the schema is up to date.\n")


def test_an_installation_is_copied_into_a_database_that_the_doctor_has_checked(
    folder: Path, tmp_path: Path
) -> None:
    """These are the first two steps of docs/operating/scale.md#move-in."""
    url = url_in(tmp_path)
    new = settings(
        MINTSCOPE_STORE=url,
        MINTSCOPE_CREDITS__PEPPER=sha256(b"the pepper of the tests").hexdigest(),
        MINTSCOPE_CHAIN__RPC_URL="http://127.0.0.1:1",
        MINTSCOPE_DATA_DIR=str(tmp_path / "new"),
    )
    assert mintscope("migrate", **settings(MINTSCOPE_DATA_DIR=str(folder)))[0] == 0
    _, said = mintscope("doctor", **new)
    assert "money: the database of store is empty" in said
    code, said = mintscope("copy", "--from", f"sqlite:{folder}", "--to", url)
    assert code == 0, said


def settings(**more: str) -> Mapping[str, str]:
    return more


def test_a_dry_run_lists_migrations_without_running_them(tmp_path: Path) -> None:
    place = {"MINTSCOPE_DATA_DIR": str(tmp_path / "none")}
    code, said = mintscope("migrate", "--dry-run", **place)
    assert code == 0
    assert "would run money 0302_tables.sql" in said
    assert not (tmp_path / "none").exists()
    code, said = mintscope("migrate", **place)
    assert "ran money 0302_tables.sql" in said
    assert mintscope("migrate", **place) == (0, "Nothing to do: the schema is up to date.\n")


@pytest.mark.parametrize("options", [(), ("--dry-run",)])
def test_a_file_that_is_not_a_database_is_named_by_migrate(
    options: Sequence[str], tmp_path: Path
) -> None:
    file = tmp_path / MONEY_FILE
    file.write_bytes(b"neither SQLite nor empty" * 100)
    code, said = mintscope("migrate", *options, MINTSCOPE_DATA_DIR=str(tmp_path))
    assert code == 1
    assert f"expected an SQLite database at {file}; it is not one" in " ".join(said.split())


def test_numbers_of_deleted_rows_are_not_reused_after_a_copy(folder: Path, tmp_path: Path) -> None:
    dsn = dsn_in(tmp_path, ())
    copied(SqliteSide(folder), PostgresSide(dsn, is_new=True))
    with psycopg.connect(dsn) as db:
        person = db.execute('SELECT min(id) FROM "user"').fetchall()[0][0]
        add = 'INSERT INTO watchlist ("user", name, created_at) VALUES (%s, %s, 1) RETURNING id'
        ((used,),) = db.execute(add, (person, "Gone")).fetchall()
        db.execute("DELETE FROM watchlist")
    copied(PostgresSide(dsn), SqliteSide(tmp_path / "new", is_new=True))
    with closing(apsw.Connection(str(tmp_path / "new" / MONEY_FILE))) as file:
        add = 'INSERT INTO watchlist ("user", name, created_at) VALUES (?, ?, 1) RETURNING id'
        assert file.execute(add, (person, "New")).get > used


GRANT: Final = """
INSERT INTO credit_entry (account, kind, delta, balance, at)
SELECT id, 'grant', 1, balance + 1, 0 FROM credit_account ORDER BY id LIMIT 1
"""
WRONG: Final = """
SELECT count(*) FROM credit_account AS a WHERE balance <>
       (SELECT sum(delta) FROM credit_entry WHERE account = a.id)
"""


@contextmanager
def writing(write: Callable[[], object]) -> Iterator[None]:
    """Call *write* in another thread, again and again until the block ends."""
    begun, stop = Event(), Event()

    def go_on() -> None:
        while not stop.is_set():
            write()
            begun.set()

    thread = Thread(target=go_on)
    thread.start()
    try:
        assert begun.wait(20)
        yield
    finally:
        stop.set()
        thread.join()


@contextmanager
def spending(folder: Path) -> Iterator[None]:
    with closing(apsw.Connection(str(folder / MONEY_FILE))) as db:
        db.set_busy_timeout(10_000)
        with writing(lambda: db.execute(GRANT)):
            yield


def wrong_in(folder: Path) -> object:
    with closing(apsw.Connection(str(folder / MONEY_FILE))) as db:
        return db.execute(WRONG).get


def test_a_copy_made_under_load_is_consistent(folder: Path, tmp_path: Path) -> None:
    SqliteSide(folder).close()  # brings the files up to date
    with closing(apsw.Connection(str(folder / MONEY_FILE))) as db:
        db.execute("UPDATE credit_account SET note = ?", ("a long note " * 100_000,))
        page_count = db.execute("PRAGMA page_count").get
    reported: list[str] = []
    with spending(folder):
        copy_files(folder, tmp_path / "backup", lambda name, _count: reported.append(name))
        copied(SqliteSide(folder), SqliteSide(tmp_path / "other", is_new=True))
    assert [wrong_in(tmp_path / place) for place in ("backup", "other")] == [0, 0]
    assert reported.count(MONEY_FILE) <= page_count // PAGES + 2  # each page once


def test_a_backup_of_postgresql_made_under_load_can_be_restored_elsewhere(
    folder: Path, tmp_path: Path
) -> None:
    copied(SqliteSide(folder), PostgresSide(dsn_in(tmp_path, ()), is_new=True))
    kept = settings(MINTSCOPE_STORE=url_in(tmp_path), MINTSCOPE_DATA_DIR=str(folder))
    with (
        psycopg.connect(dsn_in(tmp_path), autocommit=True) as db,
        writing(lambda: db.execute(GRANT.encode())),
    ):
        code, said = mintscope("backup", str(tmp_path / "backup"), **kept)
    assert (code, wrong_in(tmp_path / "backup")) == (0, 0), said

    other = tmp_path / "other"
    url = url_in(other, ())
    code, said = mintscope(
        *("restore", str(tmp_path / "backup")),
        **settings(MINTSCOPE_STORE=url, MINTSCOPE_DATA_DIR=str(other)),
    )
    assert code == 0, said
    with psycopg.connect(dsn_in(other, ())) as db:
        assert db.execute(WRONG.encode()).fetchall() == [(0,)]
        count = "SELECT count(*) FROM credit_entry"
        (restored,) = db.execute(count).fetchall()
    with closing(apsw.Connection(str(tmp_path / "backup" / MONEY_FILE))) as file:
        assert restored == (file.execute(count).get,)


def test_a_backup_never_replaces_another_backup(folder: Path, tmp_path: Path) -> None:
    copy_files(folder, tmp_path / "backup", silent)
    with pytest.raises(CannotCopy, match=r"expected no market\.sqlite"):
        copy_files(folder, tmp_path / "backup", silent)


def test_a_copy_of_an_interrupted_backup_is_refused(folder: Path, tmp_path: Path) -> None:
    """SQLite writes a copy in one transaction, so an interrupted copy of a file is empty."""
    interrupted = tmp_path / "interrupted"
    copy_files(folder, interrupted, silent)
    (interrupted / MONEY_FILE).write_bytes(b"")
    expected = rf"expected a complete copy in {interrupted}; its money\.sqlite is empty"
    with pytest.raises(CannotCopy, match=expected):
        copy_files(interrupted, tmp_path / "restored", silent)
    with pytest.raises(CannotCopy, match=expected):
        copy_running(f"sqlite:{interrupted}", f"sqlite:{tmp_path / 'moved'}", silent)

    assert not (tmp_path / "restored").exists()


@pytest.mark.parametrize("place", ["source", "target"])
def test_a_copy_fails_if_either_file_cannot_be_opened(
    folder: Path, tmp_path: Path, place: str
) -> None:
    file = tmp_path / "folder"
    file.mkdir()
    files = (file, tmp_path / "copy") if place == "source" else (folder / MONEY_FILE, file)
    with pytest.raises(UnusableStore, match="expected to copy"):
        copy_file(*files, silent)


@pytest.mark.parametrize("host", ["", "host", "host:5432", "[::1]", "[::1]:5433"])
def test_the_printed_name_of_a_database_has_host_and_port_but_no_password(host: str) -> None:
    port = ":5432" if host in {"host", "[::1]"} else ""
    assert named(f"postgresql://me:{PASSWORD}@{host}/db?user=me") == f"postgresql://{host}{port}/db"
