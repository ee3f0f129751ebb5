"""Every wire code has a status, and every ServiceError a wire code."""

from mintscope.base import errors
from mintscope.edges.api.failures import STATUS


def test_every_code_has_a_status() -> None:
    assert set(STATUS) == set(errors.ErrorCode)


def test_every_code_has_exactly_one_error() -> None:
    codes = [error.code for error in errors.ServiceError.__subclasses__()]

    assert sorted(codes) == sorted(errors.ErrorCode)


def test_the_statuses_are_those_of_the_specification() -> None:
    specified = {
        "INVALID_TOKEN_ADDRESS": 400,
        "TOKEN_NOT_FOUND": 404,
        "INSUFFICIENT_DATA": 404,
        "MISSING_TOKEN": 401,
        "INVALID_TOKEN": 401,
        "RATE_LIMITED": 429,
        "INVALID_BUNDLE": 400,
        "PRICE_UNAVAILABLE": 503,
    }

    assert {code: STATUS[errors.ErrorCode(code)] for code in specified} == specified
