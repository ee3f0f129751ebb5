"""Translation of common SQL to PostgreSQL: placeholders, and marks for row locks."""

import pytest

from mintscope.kit.sql.database import translate


@pytest.mark.parametrize(
    ("common", "text", "names"),
    [
        ("SELECT ?, ?", "SELECT $1, $2", ()),
        ("SELECT ?2, ?1, ?2", "SELECT $2, $1, $2", ()),
        ("SELECT :b, :a, :b", "SELECT $1, $2, $1", ("b", "a")),
        (
            "SELECT x::text, '?', ':a ''? /* FOR UPDATE */', ?",
            "SELECT x::text, '?', ':a ''? /* FOR UPDATE */', $1",
            (),
        ),
        ("SELECT 1 /* FOR UPDATE */", "SELECT 1 FOR NO KEY UPDATE", ()),
        ("SELECT 1 /* FOR UPDATE OF a */", "SELECT 1 FOR NO KEY UPDATE OF a", ()),
        (
            "SELECT 1 /* FOR UPDATE SKIP LOCKED */ LIMIT ?",
            "SELECT 1 FOR NO KEY UPDATE SKIP LOCKED LIMIT $1",
            (),
        ),
        (
            "SELECT 1 /* FOR UPDATE OF e SKIP LOCKED */",
            "SELECT 1 FOR NO KEY UPDATE OF e SKIP LOCKED",
            (),
        ),
    ],
)
def test_marks_and_locks_are_translated_to_postgresql(
    common: str, text: str, names: tuple[str, ...]
) -> None:
    assert translate(common) == (text, names)


@pytest.mark.parametrize(
    "comment",
    ["/* FOR UPDATE*/", "/*FOR UPDATE */", "/* FOR  UPDATE */", "/* for update */", "/* FOR UPDATE",
     "/* FOR UPDATE SKIP LOCKED OF a */", "/* any word */", "/**/"],
)  # fmt: skip
def test_an_unknown_lock_comment_is_an_error(comment: str) -> None:
    with pytest.raises(ValueError, match=r"must be /\* FOR UPDATE"):
        translate(f"SELECT ? {comment}")
