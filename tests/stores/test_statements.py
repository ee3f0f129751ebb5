"""SQLite and PostgreSQL both accept each shared SQL statement, even one that no other test runs."""

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import apsw
import apsw.ext
import psycopg
import pytest
from sql_statements import STATEMENTS, text_of

from mintscope.history import join_store as join
from mintscope.kit.sql.database import Batch, inserting_arrays, translate
from mintscope.kit.sql.migrating import migrate
from mintscope.kit.sql.postgres import PostgresDatabase
from mintscope.kit.sql.sqlite import open_store
from mintscope.market.series import store as reader
from mintscope.market.store import log_reader, log_writer, mints
from support.processes.servers import PostgresServer
from support.scenes.postgres import KINDS, OLDEST, dsn_in

INCONSISTENT: Final = re.compile(rb"inconsistent types deduced for parameter \$(\d+)")
BIGINT: Final = 20
LEAST: Final = 200  # with fewer statements, the search misses some


def test_at_least_200_statements_are_found() -> None:
    assert len(STATEMENTS) >= LEAST


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[apsw.Connection]:
    folder = tmp_path_factory.mktemp("statements")
    return [open_store(folder / f"{kind}.sqlite", kind) for kind in ("money", "market", "webhooks")]


@pytest.fixture(scope="module")
def oldest() -> Iterator[str]:
    """Yield the DSN of a migrated database of the oldest supported version of PostgreSQL."""
    if not OLDEST.is_dir():
        pytest.skip(f"expected PostgreSQL 15 in {OLDEST}; the oldest version was not asked")
    server = PostgresServer(installed_in=OLDEST)
    server.start()
    with closing(PostgresDatabase(server.dsn)) as migrated:
        for kind in KINDS:
            migrate(migrated, kind)
    yield server.dsn
    server.remove()


@pytest.fixture(scope="module", params=["newest", "oldest"])
def database(request: pytest.FixtureRequest) -> Iterator[psycopg.Connection]:
    is_newest = request.param == "newest"
    dsn = dsn_in(Path("statements")) if is_newest else request.getfixturevalue("oldest")
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield connection


def trouble(file: apsw.Connection, statement: str) -> str:
    try:
        apsw.ext.query_info(file, statement)
    except apsw.Error as error:
        return str(error)
    return ""


def test_sqlite_prepares_each_statement(files: list[apsw.Connection]) -> None:
    """One test checks all statements: a test for each would take most of its time for set-up."""
    refused = {}
    for text in map(text_of, STATEMENTS):
        troubles = [trouble(file, text) for file in files]
        if all(troubles):
            refused[text] = troubles
    assert refused == {}


@pytest.mark.parametrize("statement", [log_reader.TIP, mints.TIP, join.OLDEST])
def test_the_ends_of_a_long_log_are_found_without_reading_all_of_it(
    files: list[apsw.Connection], statement: str
) -> None:
    _, market, _ = files

    plan = [str(row[3]) for row in market.execute(f"EXPLAIN QUERY PLAN {statement}")]

    assert not [step for step in plan if step.startswith(("SCAN header", "USE TEMP B-TREE"))]


def test_the_start_of_an_older_page_of_swaps_is_found_by_an_index(
    files: list[apsw.Connection],
) -> None:
    _, market, _ = files

    plan = market.execute(f"EXPLAIN QUERY PLAN {reader.FROM}", {"slot": 1})

    assert [row[3] for row in plan if "header_alive (slot<?)" in row[3]]


def test_mints_whose_facts_are_due_are_found_by_an_index(
    files: list[apsw.Connection],
) -> None:
    _, market, _ = files

    plan = market.execute(f"EXPLAIN QUERY PLAN {log_writer.DUE}", (1, 50)).fetchall()

    assert [row[3] for row in plan] == [
        "SEARCH mint USING INDEX mint_facts_due (facts_read_at_ms<?)"
    ]


def test_postgresql_prepares_each_statement(database: psycopg.Connection) -> None:
    refused = {text_of(each): _refusal(database, each) for each in STATEMENTS}
    assert {text: words for text, words in refused.items() if words} == {}


def _refusal(database: psycopg.Connection, statement: str | Batch) -> str:
    """Return the error of PostgreSQL for *statement*, or "" if PostgreSQL prepares it."""
    if isinstance(statement, Batch):
        text = inserting_arrays(statement)
    else:
        text = translate(text_of(statement)).text
    # Integers are sent as bigint; PostgreSQL may deduce another type for a mark that is used twice.
    kinds: dict[int, int] = {}
    while True:
        types = [kinds.get(number, 0) for number in range(1, max(kinds, default=0) + 1)]
        result = database.pgconn.prepare(b"", text.encode(), types or None)
        reported = INCONSISTENT.search(result.error_message)
        if reported is None or int(reported[1]) in kinds:
            break
        kinds[int(reported[1])] = BIGINT
    is_prepared = result.status == psycopg.pq.ExecStatus.COMMAND_OK
    return "" if is_prepared else result.error_message.decode() or "no message"


# Tables with a row for each request, payment, trade or minute.
GROWING: Final = (
    *("credit_entry", "credit_account", "credit_day", "payment", "account_event"),
    *("credit_received", "closed_balance", "closed_key", "audit_balance", "audit_key_month"),
    *("candle", "waypoint", "crowd", "swap", "header", "event", "mint", "activity"),
    *("signal_firing", "spend_alert"),
)
READS_ALL: Final = re.compile(r"SCAN (\w+)(?: USING COVERING INDEX (\w+))?$")
ALIAS: Final = re.compile(rf"\b({'|'.join(GROWING)}) AS (\w+)")
# Indexes with few rows: of payments in progress, of mints whose candles wait to be deleted, and of
# alerts whose accounts have spent.
OF_FEW: Final = {
    *("payment_pending", "payment_pending_from", "payment_open", "mint_uncleared"),
    "spend_alert_due",
}
# The beginnings of statements that read such a table.  The list may only shrink.
READ_ALL: Final = {
    # references to a new row, which SQLite searches only after a violation
    "INSERT INTO credit_account (token_hash, hint, note, issued_at, root)": "no look",
    "INSERT INTO credit_account (token_hash, hint, note, issued_at) VALUES": "no look",
    "WITH entry AS ( SELECT account, delta, balance": "an operator: doctor, of a small store",
    "SELECT address, deciding FROM other_deciding_kept": "a start: what trades",
    "SELECT header.slot, address, deciding, seq FROM swap": "a start: the log",
    "SELECT slot, parent_slot, blockhash, time, sol_usd": "a start: the log",
    "SELECT 1 FROM header LIMIT 1": "one row",
    "SELECT address, day, swaps, volume, lively_day FROM mint": "a new day: what is followed",
}


def test_no_statement_reads_a_growing_table_from_end_to_end(
    files: list[apsw.Connection],
) -> None:
    """SQLite plans by the indexes alone, so an empty file shows what a large one does."""
    found = set()
    for text in (text_of(each) for each in STATEMENTS if isinstance(each, str)):
        for file in files:
            if trouble(file, text):
                continue
            plan = apsw.ext.query_info(file, text, explain_query_plan=True).query_plan
            names = {name: name for name in GROWING} | {
                alias: name for name, alias in ALIAS.findall(text)
            }
            scans = filter(None, map(READS_ALL.match, details(plan)))
            if [scan for scan in scans if scan[1] in names and scan[2] not in OF_FEW]:
                found.add(" ".join(text.split()))
    known = {text for text in found if text.startswith(tuple(READ_ALL))}
    assert found == known
    assert len(known) == len(READ_ALL)


def details(plan: apsw.ext.QueryPlan | None) -> Iterator[str]:
    """Yield each step of *plan*."""
    if plan is not None:
        yield plan.detail
        for each in plan.sub or ():
            yield from details(each)
