"""Numbers of credits that clients and operators rely on."""

from mintscope.credits.ledger import STATEMENT_LINES


def test_a_statement_has_a_hundred_lines() -> None:
    assert STATEMENT_LINES == 100
