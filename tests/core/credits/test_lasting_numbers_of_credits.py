"""Numbers of credits that clients and operators rely on."""

from mintscope.base.credentials import PEPPER_BYTES_MIN
from mintscope.core.credits.ledger import STATEMENT_LINES


def test_a_statement_has_a_hundred_lines() -> None:
    assert STATEMENT_LINES == 100


def test_a_pepper_of_32_bytes_is_enough() -> None:
    assert PEPPER_BYTES_MIN == 32
