"""The rows that refer to a deleted row are found by an index, however many rows there are."""

from contextlib import closing
from pathlib import Path
from typing import Final

import psycopg
import pytest

from mintscope.kit.sql.sqlite import open_store
from support.scenes.postgres import KINDS, dsn_in

# References whose rows change if the referenced row is deleted, and whether an index begins with
# the reference.
OF_SQLITE: Final = """
SELECT s.name, f."from", EXISTS (
           SELECT 1 FROM pragma_table_info(s.name) AS c WHERE c.name = f."from" AND c.pk = 1)
       OR EXISTS (
           SELECT 1 FROM pragma_index_list(s.name) AS i JOIN pragma_index_info(i.name) AS c
            WHERE c.seqno = 0 AND c.name = f."from")
  FROM sqlite_schema AS s JOIN pragma_foreign_key_list(s.name) AS f
 WHERE s.type = 'table' AND f.seq = 0 AND f.on_delete <> 'NO ACTION'
"""
OF_POSTGRESQL: Final = """
SELECT conrelid::regclass::text, conname, EXISTS (
           SELECT 1 FROM pg_index WHERE indrelid = conrelid AND indkey[0] = conkey[1])
  FROM pg_constraint
 WHERE contype = 'f' AND confdeltype <> 'a' AND connamespace = current_schema()::regnamespace
"""


@pytest.mark.parametrize("kind", ["money", "market"])
def test_sqlite_has_an_index_for_each_reference(tmp_path: Path, kind: str) -> None:
    with closing(open_store(tmp_path / "store.sqlite", kind)) as db:
        found = db.execute(OF_SQLITE).fetchall()

    assert found
    assert [row for row in found if not row[2]] == []


def test_postgresql_has_an_index_for_each_reference(tmp_path: Path) -> None:
    with psycopg.connect(dsn_in(tmp_path, KINDS), autocommit=True) as db:
        found = db.execute(OF_POSTGRESQL.encode()).fetchall()

    assert found
    assert [row for row in found if not row[2]] == []
