"""Searches of payments use an index, however many payments there are."""

import re
from contextlib import closing
from pathlib import Path
from typing import Final

import psycopg
import pytest
from filled_tables import FILL

from mintscope.kit.sql.sqlite import open_store
from mintscope.payments.store import books as customers
from mintscope.payments.store import purchases as statements
from support.scenes.postgres import dsn_in

ROWS: Final = 5_000
INDEXES: Final = ("payment_account", "payment_holder", "payment_of_wallet")
LARGE: Final = ("payment", "credit_account", "p", "a", "h")
PARTS: Final = {"columns": statements.COLUMNS, "joins": statements.JOINS}


def plan(folder: Path, statement: str, values: tuple[object, ...]) -> list[str]:
    with closing(open_store(folder / "money.sqlite", "money")) as db:
        return [str(row[3]) for row in db.execute(f"EXPLAIN QUERY PLAN {statement}", values)]


@pytest.mark.parametrize("lacks", [None, "payment_account", "credit_account_hint"])
def test_no_large_table_is_read_from_end_to_end(tmp_path: Path, lacks: str | None) -> None:
    places = PARTS | {"accounts": "?", "signatures": "?", "payers": "?"}
    with closing(open_store(tmp_path / "money.sqlite", "money")) as db:
        if lacks is not None:
            db.execute(f"DROP INDEX {lacks}")
    lines = plan(tmp_path, statements.PAYMENTS.format(**places), (1, "h", "s", "w", 20, 20))
    assert bool(read_whole(lines)) is (lacks is not None), lines


def read_whole(lines: list[str]) -> list[str]:
    return [line for line in lines if line.startswith("SCAN") and line.split()[1] in LARGE]


@pytest.mark.parametrize("lacks", [None, *INDEXES])
def test_the_list_of_a_customer_uses_an_index_for_each_kind_of_payment(
    tmp_path: Path, lacks: str | None
) -> None:
    with closing(open_store(tmp_path / "money.sqlite", "money")) as db:
        if lacks is not None:
            db.execute(f"DROP INDEX {lacks}")
    lines = plan(tmp_path, customers.OF_CUSTOMER, (1, *statements.LATEST, 20))
    lines_of_one = plan(tmp_path, customers.ONE_OF_CUSTOMER, (1, "s"))
    lines_of_sums = plan(tmp_path, customers.SUMS_OF_WALLETS, (1,))
    missing = [name for name in INDEXES if not any(f"INDEX {name} (" in line for line in lines)]

    assert read_whole(lines_of_one) == read_whole(lines_of_sums) == []
    assert missing == [name for name in INDEXES if name == lacks], lines


@pytest.mark.parametrize("lacks", [None, "payment_account", "credit_account_hint"])
def test_a_search_on_postgresql_reads_no_table_without_an_index(
    tmp_path: Path, lacks: str | None
) -> None:
    """The tables have rows and statistics, as in a store that is in use."""
    places = PARTS | {"accounts": "1", "signatures": "'s'", "payers": "'w'"}
    statement = statements.PAYMENTS.format(**places)
    for value in ("'h'", "20", "20"):
        statement = statement.replace("?", value, 1)
    with psycopg.connect(dsn_in(tmp_path, ("money",)), autocommit=True) as db:
        if lacks is not None:
            db.execute(f"DROP INDEX {lacks}".encode())
        db.execute("SET session_replication_role = replica")
        for table in ("credit_account", "payment"):
            rows = f"{FILL[table]} FROM generate_series(1, {ROWS}) AS n"
            db.execute(f"INSERT INTO {table} {rows}".encode())
            db.execute(f"ANALYZE {table}".encode())
        lines = [str(row[0]) for row in db.execute(f"EXPLAIN {statement}".encode()).fetchall()]
    followed = zip(lines, [*lines[1:], ""], strict=True)
    read_whole = [
        line
        for line, after in followed
        if re.search(r"Scan .*\bon (payment|credit_account)\b", line) and "Cond" not in after
    ]

    assert bool(read_whole) is (lacks is not None), "\n".join(lines)
