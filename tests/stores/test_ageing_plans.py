"""No statement costs more because the store is old: PostgreSQL's plans at two ages.

PostgreSQL plans by its statistics of the tables, so each table is filled and analyzed: a plan that
reads a growing table from end to end grows with it.  A new database has no statistics in its first
minute, in which a hundred thousand mints may be logged.  SQLite's plans depend only on the schema:
they are in test_statements.py.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest
from filled_tables import FILL
from sql_statements import STATEMENTS, modules, statements_of, text_of

from mintscope.kit.sql.database import translate
from mintscope.kit.sql.postgres import HOT, SETTINGS
from mintscope.market.store.postgres import CUTS_MAX, DROP_OLD, DROP_WAYPOINTS
from mintscope.payments.store.audit import KEEP_BALANCES, OF_ACCOUNTS, OF_JOURNAL, ROWS_A_PART
from support.scenes.postgres import dsn_in

AGES: Final = (5_000, 50_000)
GROWTH: Final = 3.0  # of the expected cost of a plan, while the store grows to ten times
CHEAP: Final = 500.0  # some hundred rows by their keys
# The log is not checked here: it holds only minutes.
# The beginnings of statements that read a growing table from end to end.  The list may only shrink.
READ_ALL: Final = {
    "WITH entry AS ( SELECT account, delta, balance": "an operator: doctor, of a small store",
    "SELECT address, day, swaps, volume, lively_day FROM mint": "a new day: what is followed",
    # PostgreSQL does not know where the mark is, and expects a third of the journal behind it.
    "SELECT day, sum(credits) FROM": "some minutes of the journal",
    "SELECT min(first_at), max(last_at) FROM": "some minutes of the journal",
}
SUMS: Final = {"audit_balance", "closed_balance"}  # an audit has parts in proportion to both
AT_FIRST: Final = 20_000
# Statements that do so in a database without statistics.  It has no more rows than a minute brings:
# up to a hundred thousand mints and their candles, but few accounts and payments.
READ_ALL_AT_FIRST: Final = {
    "WITH entry AS ( SELECT account, delta, balance": "an operator: doctor, of a small store",
    "INSERT INTO fee_fund (id, lamports)": "few payments",
    "DELETE FROM doubt WHERE EXISTS ( SELECT 1 FROM payment": "few payments",
    "WITH since AS MATERIALIZED ( SELECT api_key, month, delta": "an audit: what follows a mark",
    "SELECT address, d": "the pools that set prices: at the start, all of them",
    "SELECT address, since_slot, since_time, is_listed, last_swap, NULL": "an operator's search",
}
# The log, which holds minutes: after a minute it has a million swaps.
LOG: Final = {
    "swap": "(seq, mint, swaps, bought, sold) SELECT n / 1000, n, '', 1, 1",
    "state": "(mint, state, last_swap) SELECT n, '', 1",
}
FILLED_AT_FIRST: Final = {**FILL, **LOG}
MARK: Final = re.compile(r"\$(\d+)")
LIMIT: Final = re.compile(r"LIMIT \$(\d+)")
TEXT = 25
BYTES = 17
DOUBLE = 701
BOOLEAN = 16
ARRAYS: Final = {1016: "bigint[]", 1009: "text[]", 1001: "bytea[]", 1022: "double precision[]"}


def value(kind: int, number: int, *, is_limit: bool) -> str:
    """Return an SQL value of the type *kind*; integers are *number*, or 100 for a limit."""
    if is_limit:
        return "100::bigint"
    if kind in ARRAYS:
        return f"ARRAY['{number}']::{ARRAYS[kind]}" if kind == 1016 else f"'{{}}'::{ARRAYS[kind]}"
    return {
        TEXT: "'m5'::text",
        BYTES: r"'\x00'::bytea",
        DOUBLE: "1.0::double precision",
        BOOLEAN: "true",
    }.get(kind, f"{number}::bigint")


def explained(db: psycopg.Connection[Any], text: str, newest: int) -> Any:
    """Return the plan of *text* with *newest* as integers; None if it cannot be prepared."""
    result = db.pgconn.prepare(b"explained", text.encode())
    if result.status != psycopg.pq.ExecStatus.COMMAND_OK:
        return None
    described = db.pgconn.describe_prepared(b"explained")
    kinds = [described.param_type(place) for place in range(described.nparams)]
    db.execute("DEALLOCATE explained")
    limits = {int(number) for number in LIMIT.findall(text)}
    written = MARK.sub(
        lambda found: value(kinds[int(found[1]) - 1], newest, is_limit=int(found[1]) in limits),
        text,
    )
    (plan,) = db.execute(f"EXPLAIN (FORMAT JSON) {written}".encode()).fetchone() or (None,)
    return plan


def of_many(db: psycopg.Connection[Any], text: str, columns: int) -> Any:
    """Return PostgreSQL's plan of *text* for CUTS_MAX mints, as many as a late fold reads."""
    kinds = ("bigint", "text", "bigint")
    values = ("1", "m1", "1")
    arrays = [
        "'{" + ",".join([value] * CUTS_MAX) + f"}}'::{kind}[]"
        for kind, value in zip(kinds[:columns], values, strict=False)
    ]
    written = MARK.sub(lambda found: [*arrays, "100"][int(found[1]) - 1], text)
    row = db.execute(f"EXPLAIN (FORMAT JSON) {written}".encode()).fetchone()
    assert row is not None
    return row[0][0]["Plan"]


def of_a_part(db: psycopg.Connection[Any], statement: str) -> Any:
    """Return the plan of *statement* for the newest part of the journal in the oldest store."""
    values = {"after": AGES[-1] - ROWS_A_PART, "until": AGES[-1], "entry": AGES[-1]}
    text, names = translate(statement)
    written = MARK.sub(lambda found: f"{values.get(names[int(found[1]) - 1], 1)}::bigint", text)
    row = db.execute(f"EXPLAIN (FORMAT JSON) {written}".encode()).fetchone()
    assert row is not None
    return row[0][0]["Plan"]


def planned_once(db: psycopg.Connection[Any], text: str) -> Mapping[str, Any] | None:
    """Return the plan of *text* for any values, None if PostgreSQL cannot prepare it."""
    result = db.pgconn.prepare(b"explained", text.encode())
    if result.status != psycopg.pq.ExecStatus.COMMAND_OK:
        return None
    count = db.pgconn.describe_prepared(b"explained").nparams
    values = f"({', '.join(['NULL'] * count)})" if count else ""
    row = db.execute(f"EXPLAIN (FORMAT JSON) EXECUTE explained {values}".encode()).fetchone()
    db.execute("DEALLOCATE explained")
    return None if row is None else row[0][0]["Plan"]


def reads_all(node: Mapping[str, Any], tables: Collection[str] = tuple(FILL)) -> Iterator[str]:
    """Yield those of *tables* that the plan *node* reads from end to end."""
    is_whole = node["Node Type"] == "Seq Scan" or (
        "Index" in node["Node Type"]
        and "Index Cond" not in node
        and node["Node Type"] != "Bitmap Heap Scan"
        and node["Total Cost"] - node["Startup Cost"] > 1_000
    )
    table = node.get("Relation Name")
    if is_whole and (table in tables or f'"{table}"' in tables):
        yield str(table)
    below = node.get("Plans", ())
    if node["Node Type"] != "Limit" or node["Total Cost"] > 1_000:
        for each in below:
            yield from reads_all(each, tables)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(dsn_in(tmp_path_factory.mktemp("plans")), autocommit=True) as db:
        db.execute("SET session_replication_role = replica")
        db.execute("SET jit = off")
        yield db


def test_no_plan_reads_a_growing_table_from_end_to_end_or_grows_with_it(
    filled: psycopg.Connection[Any],
) -> None:
    texts = [translate(text_of(each)).text for each in STATEMENTS if isinstance(each, str)]
    costs: dict[str, list[float]] = {text: [] for text in texts}
    found = set[str]()
    begin = 1
    for age in AGES:
        for table, rows in FILL.items():
            series = f"generate_series({begin}::bigint, {age}) AS n"
            filled.execute(f"INSERT INTO {table} {rows} FROM {series}".encode())
        for mark in ("credit_day_mark", "credit_received_mark", "usage_day_mark"):
            filled.execute(f"UPDATE {mark} SET entry = {age - 10}".encode())
        filled.execute("ANALYZE")
        begin = age + 1
        for text in texts:
            plan = explained(filled, text, age - 10)
            if plan is not None:
                costs[text].append(plan[0]["Plan"]["Total Cost"])
                if age == AGES[-1] and set(reads_all(plan[0]["Plan"])):
                    found.add(text)
    planned = [text for text in texts if len(costs[text]) == len(AGES)]
    for text in planned:
        young, old = costs[text]
        if old > CHEAP and old > GROWTH * young:
            found.add(text)
    for text, columns in ((DROP_OLD, 3), (DROP_WAYPOINTS, 2)):
        plan = of_many(filled, translate(text).text, columns)
        assert set(reads_all(plan)) == set(), text
    words = {" ".join(text.split()) for text in found}
    known = {text for text in words if text.startswith(tuple(READ_ALL))}
    assert len(planned) > len(texts) * 0.9
    assert sorted(words - known) == []
    assert len(known) == len(READ_ALL)


def test_a_part_of_an_audit_reads_only_the_sums_of_its_own_accounts(tmp_path: Path) -> None:
    with psycopg.connect(dsn_in(tmp_path), autocommit=True) as db:
        db.execute("SET session_replication_role = replica")
        for table in ("credit_account", "credit_entry", *SUMS):
            series = f"generate_series(1::bigint, {AGES[-1]}) AS n"
            db.execute(f"INSERT INTO {table} {FILL[table]} FROM {series}".encode())
        db.execute("ANALYZE")
        for text in (*OF_JOURNAL.values(), *OF_ACCOUNTS.values(), KEEP_BALANCES):
            assert set(reads_all(of_a_part(db, text), SUMS)) == set(), text


def test_no_plan_of_a_new_database_reads_a_table_of_many_rows_from_end_to_end(
    tmp_path: Path,
) -> None:
    texts = {
        translate(text_of(each)).text: module.__name__.startswith("mintscope.market.")
        for module in modules()
        for each in statements_of(module)
        if isinstance(each, str)
    }
    with psycopg.connect(dsn_in(tmp_path), autocommit=True) as db:
        db.execute("SET session_replication_role = replica")
        for table, rows in FILLED_AT_FIRST.items():
            db.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = false)".encode())
            series = f"generate_series(1::bigint, {AT_FIRST}) AS n"
            db.execute(f"INSERT INTO {table} {rows} FROM {series}".encode())
        found: set[str] = set()
        for is_hot in (False, True):
            settings = psycopg.RawCursor(db)
            settings.execute(SETTINGS, ["0", "0", "0"])
            settings.execute(HOT if is_hot else "SET plan_cache_mode = force_generic_plan")
            for text, of_market in texts.items():
                plan = planned_once(db, text) if of_market == is_hot else None
                if plan is not None and set(reads_all(plan, FILLED_AT_FIRST)):
                    found.add(" ".join(text.split()))
    known = {
        text: [start for start in READ_ALL_AT_FIRST if text.startswith(start)] for text in found
    }
    assert sorted(text for text, starts in known.items() if not starts) == []
    assert {start for starts in known.values() for start in starts} == set(READ_ALL_AT_FIRST)
