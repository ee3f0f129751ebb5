"""Migrations that read or change all rows of a table that grows with age: each is in this list.

A new migration should instead add a plain column, which takes no time, or leave the work to the
service, which does it in batches and stores its progress.
"""

import re
from pathlib import Path
from typing import Final

import pytest

import mintscope.kit.sql
from mintscope.accounts.mail.store import SqlEmailRows
from mintscope.kit.sql.sqlite import PLAIN_COLUMN

GROW: Final = (
    "credit_entry|credit_account|payment|candle|header|swap|state|mint|mint_fact|account_event"
    "|letter|signal_firing|stream_minute|history_candle|history_swap|user|usage_day"
)
MADE: Final = re.compile(rf"CREATE TABLE ({GROW}) \(")
WHOLE: Final = (
    rf"^CREATE (?:UNIQUE )?INDEX \w+\s+ON ({GROW})\b",
    rf"^UPDATE ({GROW})\b",
    rf"^DELETE FROM ({GROW})\b",
    rf"^INSERT INTO ({GROW}) [^;]*?SELECT",
    rf"^ALTER TABLE ({GROW})\s+ADD [^;]*?(?:CHECK|REFERENCES)",
)
ON_SQLITE: Final = rf"^ALTER TABLE ({GROW})\s+ADD COLUMN [^;]*?DEFAULT"  # it reads all rows, too
FOLDER: Final = Path(mintscope.kit.sql.__path__[0]) / "migrations"
# On SQLite a row takes 0.07 us for a column with a default or a check, and 0.03 (of a partial index
# that has few) to 0.25 us for an index: of ten million entries 0.3 to 2.5 s.  Payments and accounts
# are a hundredth of the journal.
KNOWN: Final = {
    "sqlite": {
        "market/0019_volume_without_a_price": "candle history_candle",
        "market/0020_imported_from": "state",
        "market/0091_mints_cleared_later": "mint",
        "market/0170_due_mint_facts": "mint",
        "money/0390_audit_walk": "payment",
        "money/0401_kept_bodies": "payment",
        "money/0450_search_of_payments": "credit_account payment",
        "money/0510_purchases_of_wallets": "payment",
        "money/0530_alerts": "signal_firing",
        "money/0531_payments_not_issued": "payment",
        "money/0540_telegram": "signal_firing",
        "money/0541_spend_alerts": "account_event",
        "money/0570_worth_of_payments": "payment",
        "money/0590_emails_by_proof": SqlEmailRows.NAME,
    },
    "postgres": {
        "market/0009_volume_without_a_price": "candle history_candle",
        "market/0010_imported_from": "state",
        "market/0091_mints_cleared_later": "mint",
        "market/0170_due_mint_facts": "mint",
        "money/0090_audit_walk": "payment",
        "money/0101_kept_bodies": "payment",
        "money/0110_search_of_payments": "credit_account payment",
        "money/0210_purchases_of_wallets": "payment",
        "money/0230_alerts": "signal_firing",
        "money/0231_payments_not_issued": "payment",
        "money/0240_telegram": "signal_firing",
        "money/0241_spend_alerts": "account_event",
        "money/0270_worth_of_payments": "payment",
        "money/0291_emails_by_proof": SqlEmailRows.NAME,
    },
}


def whole(script: str, engine: str) -> list[str]:
    """Return the tables of earlier migrations all of whose rows *script* reads or changes."""
    made = set(MADE.findall(script))
    plain = PLAIN_COLUMN.sub("", script)
    patterns = [*WHOLE, ON_SQLITE] if engine == "sqlite" else WHOLE
    return sorted(
        {
            table
            for pattern in patterns
            for table in re.findall(pattern, plain, re.MULTILINE | re.DOTALL)
            if table not in made
        }
    )


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_each_migration_of_a_whole_table_is_in_the_list(engine: str) -> None:
    found = {
        f"{path.parent.name}/{path.stem}": " ".join(tables)
        for path in sorted((FOLDER / engine).glob("*/*.sql"))
        if (tables := whole(path.read_text(), engine))
    }
    assert found == KNOWN[engine]


def test_a_plain_column_or_a_new_table_does_not_count_as_a_whole_table() -> None:
    script = "CREATE TABLE payment (id INTEGER);\nCREATE INDEX of_id ON payment (id);\n"
    assert whole(f"{script}ALTER TABLE candle ADD COLUMN more REAL;\n", "sqlite") == []
    assert whole("ALTER TABLE candle ADD COLUMN more REAL CHECK (more > 0);", "sqlite") == [
        "candle"
    ]
    assert whole("UPDATE payment SET state = 1;", "postgres") == ["payment"]
