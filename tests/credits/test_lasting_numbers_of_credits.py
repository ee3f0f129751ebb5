"""Constants of credits that must not change, because clients and operators rely on them."""

from mintscope.credits.ledger import STATEMENT_LINES


def test_a_statement_has_a_hundred_lines() -> None:
    assert STATEMENT_LINES == 100
