"""Both engines understand every statement in common SQL, whether another test runs it or not."""

import ast
import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Final

import apsw
import apsw.ext
import psycopg
import pytest

from mintscope.edges.storage import sql
from mintscope.edges.storage.database import Batch, inserting, marks
from mintscope.edges.storage.postgres.dialect import inserting_arrays, translate
from mintscope.edges.storage.sql.history import join
from mintscope.edges.storage.sql.market import log_reader, mints
from mintscope.edges.storage.sql.series import reader
from mintscope.edges.storage.sqlite.connection import open_store
from support.scenes.postgres import OLDEST, dsn_in, dsn_of, oldest_server

VERBS: Final = ("SELECT ", "INSERT ", "UPDATE ", "DELETE ", "WITH ")
INCONSISTENT: Final = re.compile(rb"inconsistent types deduced for parameter \$(\d+)")
BIGINT: Final = 20
LEAST: Final = 200  # fewer were not found, and not that they are gone


def modules() -> list[ModuleType]:
    found = pkgutil.walk_packages(sql.__path__, f"{sql.__name__}.")
    return [importlib.import_module(each.name) for each in found if not each.ispkg]


def statements_of(module: ModuleType) -> Iterator[str | Batch]:
    """Yield the constants of *module* and the texts in its functions that are whole statements."""
    for value in vars(module).values():
        if isinstance(value, Batch) or (isinstance(value, str) and is_statement(value)):
            yield value
    assert module.__file__ is not None
    tree = ast.parse(Path(module.__file__).read_text())
    parts = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for part in node.values
    }
    texts = [node for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    for node in texts:
        if isinstance(node.value, str) and id(node) not in parts and is_statement(node.value):
            yield node.value


def is_statement(text: str) -> bool:
    """Say whether *text* is a whole statement, and no part or template of one."""
    text = text.replace("{marks}", "?").strip()
    return (
        text.startswith(VERBS) and "{" not in text and not text.endswith(("WHERE", "FROM", " IN"))
    )


def all_statements() -> list[str | Batch]:
    found = [each for module in modules() for each in statements_of(module)]
    return list({repr(each): each for each in found}.values())


def text_of(statement: str | Batch) -> str:
    text = inserting(statement) if isinstance(statement, Batch) else statement
    return text.format(marks=marks([1, 2])) if "{marks}" in text else text


STATEMENTS: Final = all_statements()


def test_the_statements_are_found() -> None:
    assert len(STATEMENTS) >= LEAST


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[apsw.Connection]:
    folder = tmp_path_factory.mktemp("statements")
    return [open_store(folder / f"{kind}.sqlite", kind) for kind in ("money", "market", "webhooks")]


@pytest.fixture(scope="module", params=["newest", "oldest"])
def database(request: pytest.FixtureRequest) -> Iterator[psycopg.Connection]:
    if request.param == "newest":
        dsn = dsn_in(Path("statements"))
    elif OLDEST.is_dir():
        dsn = dsn_of(oldest_server())
    else:
        pytest.skip(f"expected PostgreSQL 15 in {OLDEST}; the oldest version was not asked")
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield connection


def trouble(file: apsw.Connection, statement: str) -> str:
    try:
        apsw.ext.query_info(file, statement)
    except apsw.Error as error:
        return str(error)
    return ""


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda each: text_of(each).split()[0])
def test_sqlite_prepares_it(files: list[apsw.Connection], statement: str | Batch) -> None:
    troubles = [trouble(file, text_of(statement)) for file in files]
    assert not all(troubles), troubles


@pytest.mark.parametrize("statement", [log_reader.TIP, mints.TIP, join.OLDEST])
def test_the_ends_of_a_long_log_are_found_without_reading_all_of_it(
    files: list[apsw.Connection], statement: str
) -> None:
    _, market, _ = files

    plan = [str(row[3]) for row in market.execute(f"EXPLAIN QUERY PLAN {statement}")]

    assert not [step for step in plan if step.startswith(("SCAN header", "USE TEMP B-TREE"))]


def test_where_an_older_page_of_swaps_begins_is_found_by_its_slot(
    files: list[apsw.Connection],
) -> None:
    _, market, _ = files

    plan = market.execute(f"EXPLAIN QUERY PLAN {reader.FROM}", {"slot": 1})

    assert [row[3] for row in plan if "header_alive (slot<?)" in row[3]]


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda each: text_of(each).split()[0])
def test_postgresql_prepares_it(database: psycopg.Connection, statement: str | Batch) -> None:
    if isinstance(statement, Batch):
        text = inserting_arrays(statement)
    else:
        text = translate(text_of(statement)).text
    # Integers are sent as bigint, which a mark that is used twice is not always taken for.
    kinds: dict[int, int] = {}
    while True:
        types = [kinds.get(number, 0) for number in range(1, max(kinds, default=0) + 1)]
        result = database.pgconn.prepare(b"", text.encode(), types or None)
        told = INCONSISTENT.search(result.error_message)
        if told is None or int(told[1]) in kinds:
            break
        kinds[int(told[1])] = BIGINT
    assert result.status == psycopg.pq.ExecStatus.COMMAND_OK, result.error_message.decode()


# Tables with a row for each request, payment, trade or minute.
GROWING: Final = (
    *("credit_entry", "credit_account", "credit_day", "payment", "account_event"),
    *("candle", "waypoint", "swap", "header", "event", "mint", "activity", "signal_firing"),
)
READS_ALL: Final = re.compile(rf"SCAN ({'|'.join(GROWING)})(?: USING COVERING INDEX \w+)?$")
# An index of the payments that are under way, which are few.
OF_FEW: Final = re.compile(r"payment_(?:pending|pending_from|open)$")
# The beginnings of those that do.  The list may only shrink.
READ_ALL: Final = {
    # what refers to a new row, which SQLite looks for only behind a violation
    "INSERT INTO credit_account (token_hash, hint, note, issued_at, root)": "no look",
    "INSERT INTO credit_account (token_hash, hint, note, issued_at) VALUES": "no look",
    "SELECT kind, sum(delta), min(at), max(at) FROM credit_entry": "an operator: credits show",
    "SELECT -1, address, deciding, 0 FROM deciding_pool": "a start: what trades",
    "SELECT header.slot, address, deciding, seq FROM swap": "a start: the log",
    "SELECT slot, parent_slot, blockhash, time, sol_usd": "a start: the log",
    "SELECT 1 FROM header LIMIT 1": "one row",
    "SELECT address, day, swaps, volume, lively_day FROM mint": "a new day: what is followed",
}


def test_no_statement_reads_a_table_that_grows_from_end_to_end(
    files: list[apsw.Connection],
) -> None:
    """SQLite plans by the indexes alone, so an empty file tells what a large one does."""
    found = set()
    for text in (text_of(each) for each in STATEMENTS if isinstance(each, str)):
        for file in files:
            if trouble(file, text):
                continue
            plan = apsw.ext.query_info(file, text, explain_query_plan=True).query_plan
            lines = [line for line in details(plan) if READS_ALL.match(line)]
            if [line for line in lines if not OF_FEW.search(line)]:
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
