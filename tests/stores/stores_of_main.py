"""Stores as commits of main wrote them, on both engines: recorded here, and restored by tests.

`python -m stores.stores_of_main COMMIT` in tests/ runs the code of COMMIT from the repository in a
scratch folder: that code reads a few blocks of its devchain, issues credits, creates an
administrator, and copies the stores to PostgreSQL. tests/stores/data/main has SQLite's stores as
SQL, PostgreSQL's as rows, and the names of the migrations that had run. Tests create PostgreSQL's
tables with the current scripts of these migrations, because a migration on main never changes; only
those up to 24 November 2026 have since been joined in one script.
"""

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

import apsw
import psycopg

from mintscope.app.stores.folder import MARKET_FILE, MONEY_FILE, PEPPER_FILE
from mintscope.kit.sql import migrating
from mintscope.kit.sql import sqlite as connection
from support.scenes.postgres import dsn_in

DATA: Final = Path(__file__).parent / "data" / "main"
ROOT: Final = Path(__file__).parents[2]
CREDITS: Final = 7
PASSWORD: Final = "a password that is long enough\n"
EMAIL: Final = "admin@example.org"
FILES: Final = {"money": MONEY_FILE, "market": MARKET_FILE}


class Kept(NamedTuple):
    """The data that the code of one commit has stored.

    token    a credit token with CREDITS credits
    """

    name: str
    facts: dict[str, Any]

    @property
    def token(self) -> str:
        return str(self.facts["token"])


def kept() -> list[Kept]:
    """Return the stored data of all commits, oldest first.

    Raises FileNotFoundError if no data is stored, because tests would then pass without a check.
    """
    paths = sorted(DATA.glob("*.json.gz"))
    if not paths:
        raise FileNotFoundError(f"expected stored data of commits in {DATA}; there was none")
    return [
        Kept(path.name.removesuffix(".json.gz"), json.loads(gzip.decompress(path.read_bytes())))
        for path in paths
    ]


def sqlite_folder(of: Kept, folder: Path) -> Path:
    """Write the data_dir of the commit *of* to *folder*; return *folder*."""
    folder.mkdir(mode=0o700, parents=True)
    for kind, name in FILES.items():
        with closing(apsw.Connection(str(folder / name))) as db:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute(f"BEGIN; {of.facts['sqlite'][kind]} COMMIT")
    (folder / PEPPER_FILE).touch(mode=0o600)
    (folder / PEPPER_FILE).write_text(of.facts["pepper"])
    return folder


def fill_postgres(of: Kept, dsn: str) -> None:
    """Create the tables and rows of the commit *of* in the empty database at *dsn*."""
    with psycopg.connect(dsn, autocommit=True) as db:
        db.execute(migrating.CREATE.encode())
        for kind, ran in of.facts["postgres"]["migrations"].items():
            known = {each.number: each for each in migrating.migrations(kind)}
            joined = min(known)
            for number, name, digest in ran:
                least = number
                if number >= joined:
                    least = known[number].least
                    script = known[number].script.encode()
                    is_same = number == joined or sha256(script).hexdigest() == digest
                    assert is_same, f"{kind} {name} was changed"
                    db.execute(script)
                db.execute(
                    "INSERT INTO migration (kind, number, name, least) VALUES (%s, %s, %s, %s)",
                    (kind, number, name, least),
                )
        db.execute("SET session_replication_role = replica")
        for table, rows in of.facts["postgres"]["rows"].items():
            db.execute(f'DELETE FROM "{table}"'.encode())
            for row in rows:
                columns = ", ".join(f'"{name}"' for name in row)
                marks = ", ".join(["%s"] * len(row))
                statement = (
                    f'INSERT INTO "{table}" ({columns}) OVERRIDING SYSTEM VALUE VALUES ({marks})'
                )
                db.execute(statement.encode(), [_value(each) for each in row.values()])


CATALOG: Final = (
    """SELECT 'column', c.relname, a.attname,
              a.attnum || ' ' || format_type(a.atttypid, a.atttypmod)
              || CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END || ' ' || a.attidentity::text
              || coalesce(' DEFAULT ' || pg_get_expr(d.adbin, d.adrelid), '')
              || coalesce(' COLLATE ' || l.collname, '')
         FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid
         LEFT JOIN pg_attrdef AS d ON d.adrelid = c.oid AND d.adnum = a.attnum
         LEFT JOIN pg_collation AS l ON l.oid = a.attcollation
        WHERE c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped AND c.relnamespace = here""",
    """SELECT 'constraint', conrelid::regclass::text, conname, pg_get_constraintdef(oid)
         FROM pg_constraint WHERE connamespace = here""",
    """SELECT 'index', c.relname, i.relname, pg_get_indexdef(i.oid)
         FROM pg_index JOIN pg_class AS i ON i.oid = indexrelid
         JOIN pg_class AS c ON c.oid = indrelid
        WHERE c.relnamespace = here""",
    """SELECT 'trigger', tgrelid::regclass::text, tgname, pg_get_triggerdef(t.oid)
         FROM pg_trigger AS t JOIN pg_class AS c ON c.oid = tgrelid
        WHERE NOT tgisinternal AND c.relnamespace = here""",
    """SELECT 'function', proname, '', regexp_replace(
                  regexp_replace(prosrc, '--[^\n]*', '', 'g'), '\\s+', ' ', 'g')
         FROM pg_proc WHERE pronamespace = here""",
    """SELECT 'table', relname, relpersistence::text, coalesce(reloptions::text, '')
         FROM pg_class WHERE relkind = 'r' AND relnamespace = here""",
)


def catalog(db: "psycopg.Connection[Any]") -> list[tuple[str, ...]]:
    """Return kind, table, name and definition of each schema object, except of migrations."""
    rows: list[tuple[str, ...]] = []
    (schema,) = db.execute("SELECT current_schema()").fetchone() or ("",)
    for query in CATALOG:
        rows += db.execute(query.replace("here", "current_schema()::regnamespace").encode())
    return sorted(
        tuple(str(value).replace(f"{schema}.", "") for value in row)
        for row in rows
        if "migration" not in row[1:3]
    )


def _value(kept_value: Any) -> Any:
    return bytes.fromhex(kept_value["hex"]) if isinstance(kept_value, dict) else kept_value


def _text(value: Any) -> Any:
    return {"hex": bytes(value).hex()} if isinstance(value, bytes | memoryview) else value


def make(commit: str) -> Path:
    """Store data with the code of *commit*, and write the rows to a file; return its path."""
    with TemporaryDirectory() as scratch:
        folder = Path(scratch)
        source = subprocess.run(
            ["git", "archive", commit, "src"], cwd=ROOT, capture_output=True, check=True
        )
        subprocess.run(["tar", "-x", "-C", scratch], input=source.stdout, check=True)
        at = subprocess.run(
            ["git", "show", "-s", "--format=%cs %H", commit],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        data = folder / "data"
        blocks = folder / "blocks.jsonl.gz"
        run = _runner(folder, data)
        run("devchain", "--to-file", str(blocks), "--mints", "1", "--history-days", "0",
            "--blocks", "60")  # fmt: skip
        files = {"CHAIN__SOURCE": "files", "CHAIN__FILES": str(blocks), "CHAIN__START": "first"}
        run("ingest", **files)
        token = run("credits", "issue", "--credits", str(CREDITS)).strip()
        run("admin", "create", EMAIL, typed=PASSWORD)
        facts: dict[str, Any] = {
            "commit": at[1],
            "token": token,
            "pepper": (data / PEPPER_FILE).read_text(),
            "sqlite": {kind: _dump(data / name) for kind, name in FILES.items()},
        }
        if (folder / "src/mintscope/kit/sql/postgres.py").exists():
            dsn = dsn_in(folder, ())
            run("copy", "--from", f"sqlite:{data}", "--to", _url(dsn))
            facts["postgres"] = _rows(dsn, folder)
        DATA.mkdir(exist_ok=True)
        target = DATA / f"{at[0]}-{at[1][:8]}.json.gz"
        target.write_bytes(gzip.compress(json.dumps(facts).encode(), mtime=0))
        return target


def _runner(folder: Path, data: Path) -> Any:
    def run(*words: str, typed: str = "", **settings: str) -> str:
        environment = {
            "PATH": os.environ["PATH"],  # noqa: TID251 - handed on
            "PYTHONPATH": str(folder / "src"),
            "MINTSCOPE_DATA_DIR": str(data),
            "NUMBA_CACHE_DIR": str(folder / "numba"),
            **{f"MINTSCOPE_{name}": value for name, value in settings.items()},
        }
        ran = subprocess.run(
            [sys.executable, "-m", "mintscope", *words],
            cwd=folder,
            env=environment,
            input=typed,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, f"{words}: {ran.stdout}{ran.stderr}"
        return ran.stdout

    return run


def _dump(path: Path) -> str:
    with closing(apsw.Connection(str(path))) as db:
        lines = list(_lines(db))
    return "\n".join(lines)


def _lines(db: apsw.Connection) -> Iterator[str]:
    """Yield statements that create the content of *db*: tables, rows, indexes, triggers."""
    order = "CASE type WHEN 'table' THEN 0 WHEN 'index' THEN 1 ELSE 2 END, rowid"
    entries = db.execute(
        "SELECT type, name, sql FROM sqlite_schema"
        f" WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' ORDER BY {order}"
    ).fetchall()
    for kind, name, sql in entries:
        if kind == "table":
            yield f"{sql};"
            for row in db.execute(f'SELECT * FROM "{name}"'):
                values = ", ".join(apsw.format_sql_value(each) for each in row)
                yield f'INSERT INTO "{name}" VALUES ({values});'
    for kind, _, sql in entries:
        if kind != "table":
            yield f"{sql};"


def _url(dsn: str) -> str:
    """Return the libpq connection string *dsn* as a URL, which is what operators write."""
    info = psycopg.conninfo.conninfo_to_dict(dsn)
    return f"postgresql://postgres@127.0.0.1:{info['port']}/{info['dbname']}"


def _rows(dsn: str, folder: Path) -> dict[str, Any]:
    """Return the catalog of the database, the migrations that it has run, and all its rows."""
    found: dict[str, Any] = {"migrations": {}, "rows": {}}
    with psycopg.connect(dsn, autocommit=True) as db:
        found["catalog"] = catalog(db)
        for kind, number, name in db.execute(
            "SELECT kind, number, name FROM migration ORDER BY kind, number"
        ).fetchall():
            script = folder / "src/mintscope/kit/sql/migrations/postgres" / kind / name
            digest = sha256(script.read_bytes()).hexdigest()
            found["migrations"].setdefault(kind, []).append((number, name, digest))
        tables = db.execute(
            "SELECT table_name FROM information_schema.tables"
            " WHERE table_schema = current_schema() AND table_name <> 'migration'"
        ).fetchall()
        for (table,) in sorted(tables):
            cursor = db.execute(f'SELECT * FROM "{table}"'.encode())
            names = [column.name for column in cursor.description or ()]
            rows = [dict(zip(names, map(_text, row), strict=True)) for row in cursor.fetchall()]
            if rows:
                found["rows"][table] = rows
    return found


if __name__ == "__main__":
    assert connection.engine_version()
    for each in sys.argv[1:]:
        print(make(each))  # noqa: T201 - a program
