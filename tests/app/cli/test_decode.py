"""`mintscope decode` prints the expected lines of recorded files; a bad file gets one message."""

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from mintscope.app.cli.chain import app
from support.oracles.recorded import pool_trouble, with_gain

SWAP_TX = "3p36wGRa191szhME5kRbg41cv9sXPPYvozkkKvPMErwoakXGZNDbjgCtV3e7uzU9dSDABtAgpm7heoepNhDmxJwN"


def run(*paths: Path) -> Result:
    return CliRunner().invoke(app, ["decode", *map(str, paths)])


def rows(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture
def transactions(shared_data: Path) -> Path:
    return shared_data / "transactions"


@pytest.fixture
def expected(transactions: Path) -> list[dict[str, Any]]:
    lines = rows((transactions / "expected_swaps.jsonl").read_text())
    return [with_gain(line) for line in lines]


def test_the_recorded_files_give_the_expected_lines(
    transactions: Path, expected: list[dict[str, Any]]
) -> None:
    """Keys have the expected order, and each amount, volume and price is equal digit by digit."""
    listed = rows((transactions / "fixtures.jsonl").read_text())
    result = run(*(transactions / one["file"] for one in listed))

    assert result.exit_code == 0
    assert result.stderr == ""
    read = rows(result.stdout)
    for row, line in zip(read, expected, strict=True):
        if line["pool"] is None:  # the expected line names no pool
            entry = json.loads((transactions / "tx" / f"{row['signature']}.json").read_text())
            assert pool_trouble(entry, row) == "", row
            line["pool"] = row["pool"]
    assert [list(row.items()) for row in read] == [list(row.items()) for row in expected]


@pytest.mark.parametrize("form", ["pretty", "envelope", "lines", "gzip", "block", "block lines"])
def test_a_file_of_every_shape_is_decoded(
    transactions: Path, expected: list[dict[str, Any]], tmp_path: Path, form: str
) -> None:
    entry = json.loads((transactions / "tx" / f"{SWAP_TX}.json").read_text())
    block = {"blockTime": entry["blockTime"], "slot": entry["slot"], "transactions": [entry]}
    text, times = {
        "pretty": (json.dumps(entry, indent=2), 1),
        "envelope": (json.dumps({"jsonrpc": "2.0", "id": 1, "result": entry}), 1),
        "lines": (f"{json.dumps(entry)}\n\n{json.dumps({'result': entry})}\n", 2),
        "gzip": (json.dumps(entry), 1),
        "block": (json.dumps(block, indent=1), 1),
        "block lines": (f"{json.dumps(block)}\n{json.dumps(block)}", 2),
    }[form]
    data = text.encode()
    path = tmp_path / "file.json"
    path.write_bytes(gzip.compress(data) if form == "gzip" else data)
    result = run(path)

    assert result.exit_code == 0
    assert rows(result.stdout) == [row for row in expected if row["signature"] == SWAP_TX] * times


@pytest.mark.parametrize("is_packed", [False, True])
def test_a_pipe_is_read(
    transactions: Path, expected: list[dict[str, Any]], *, is_packed: bool
) -> None:
    data = (transactions / "tx" / f"{SWAP_TX}.json").read_bytes()
    ours, theirs = os.pipe()
    os.write(theirs, gzip.compress(data) if is_packed else data)
    os.close(theirs)
    result = run(Path(f"/dev/fd/{ours}"))
    os.close(ours)

    assert (result.exit_code, result.stderr) == (0, "")
    assert rows(result.stdout) == [row for row in expected if row["signature"] == SWAP_TX]


def test_unreadable_transactions_are_reported_on_stderr(transactions: Path, tmp_path: Path) -> None:
    entry = json.loads((transactions / "tx" / f"{SWAP_TX}.json").read_text())
    entry["meta"]["innerInstructions"] = None
    path = tmp_path / "file.json"
    path.write_text(json.dumps(entry))
    result = run(path)

    assert (result.exit_code, result.stdout) == (0, "")
    assert rows(result.stderr) == [
        {
            "signature": SWAP_TX,
            "slot": 301807437,
            "transaction_index": 0,
            "program": "unknown",
            "reason": "no_inner_instructions",
        }
    ]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "expected a getTransaction or getBlock result in the file"),
        (b"hello", "expected a getTransaction or getBlock result in the file"),
        (b'{"transaction": {"mess', "truncated"),
        (b"[1, 2]", "in line 1"),
        (b"{}", 'neither "transaction" nor "transactions"'),
        (b'{"result": null}', 'neither "transaction" nor "transactions"'),
        (b'{"error": {"code": -32004, "message": "no"}}', 'neither "transaction" nor'),
        (b'{"slot": "x", "transaction": {}}', "in line 1"),
        (b'{"transaction": {}, "meta": null}\n{"transactions": 7}\n', "in line 2"),
        (b'{"transaction": {}}\n{"transaction"', "in line 2"),
        (b'{"a":"\xff"}', "in line 1"),
        (b"[" * 100_000, "in the file"),
        (gzip.compress(b'{"transactions": []}' * 9, mtime=0)[:30], "expected a readable file"),
        (b"\x1f\x8bnot gzip after all", "expected a readable file"),
        (b"\x1f\x8b\x08" + bytes(7) + b"\xff" * 40, "expected a readable file"),
        (b'{"slot": 1208925819614629174706176, "transactions": []}', "in line 1"),
    ],
)
def test_a_bad_file_gets_one_message_and_exit_code_2(
    tmp_path: Path, content: bytes, said: str
) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    result = run(path)
    reported = [line for line in result.stderr.splitlines() if not line.startswith("{")]

    assert result.exit_code == 2
    assert len(reported) == 1
    assert reported[0].startswith(f"{path}: expected")
    assert said in reported[0]


def test_a_missing_file_gets_a_message_and_exit_code_2(tmp_path: Path) -> None:
    result = run(tmp_path / "nowhere.json")

    assert result.exit_code == 2
    assert "nowhere.json: expected a readable file" in result.stderr


@pytest.mark.parametrize("name", ["transactions", "transactions_2026"])
def test_a_folder_is_decoded_like_the_recordings_in_it(shared_data: Path, name: str) -> None:
    """The .jsonl lists of fixtures and of swaps beside the recordings are not read."""
    folder = shared_data / name
    if not folder.is_dir():
        pytest.skip(f"the recorded transactions are not there: {folder}")
    files = sorted((folder / "tx").iterdir())
    whole = run(folder)

    assert (whole.exit_code, whole.stderr) == (0, "")
    assert whole.stdout == run(*files).stdout != ""


def test_a_folder_is_read_in_the_order_of_names_at_any_depth(
    transactions: Path, tmp_path: Path
) -> None:
    text = (transactions / "tx" / f"{SWAP_TX}.json").read_bytes()
    slots = {"b.json": 2, "a/z.json.gz": 1, "c/d/e.json": 3}
    for name, slot in slots.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        reported = json.dumps({**json.loads(text), "slot": slot}).encode()
        path.write_bytes(gzip.compress(reported) if name.endswith("gz") else reported)
    for left_out in ("b.jsonl", "README.md", "c/notes.txt"):
        (tmp_path / left_out).write_text("none of these is read")
    result = run(tmp_path)

    assert (result.exit_code, result.stderr) == (0, "")
    assert list(dict.fromkeys(row["slot"] for row in rows(result.stdout))) == [1, 2, 3]


def test_a_bad_file_in_a_folder_is_named(tmp_path: Path) -> None:
    bad = tmp_path / "in" / "bad.json"
    bad.parent.mkdir()
    bad.write_text("{}")
    result = run(tmp_path)

    assert result.exit_code == 2
    assert result.stderr.startswith(f"{bad}: expected a getTransaction or getBlock result")


def test_a_folder_without_recordings_is_refused(tmp_path: Path) -> None:
    result = run(tmp_path)

    assert result.exit_code == 2
    assert result.stderr == f"{tmp_path}: expected a folder of .json or .json.gz files; has none\n"
