"""Every wire code has a status, and every ServiceError a wire code."""

from mintscope.api.failures import STATUS
from mintscope.kit import errors
from support.fakes.reports import TRACKED
from support.scenes.service import Service, bearer, credit_token


def test_every_code_has_a_status() -> None:
    assert set(STATUS) == set(errors.ErrorCode)


def test_every_code_has_exactly_one_error() -> None:
    codes = [error.code for error in errors.ServiceError.__subclasses__()]

    assert sorted(codes) == sorted(errors.ErrorCode)
    shown = [
        (error.__doc__ or "").partition("\n")[0] for error in errors.ServiceError.__subclasses__()
    ]
    assert [text for text in shown if "*" in text] == [], "readers of the docs know no parameters"


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


async def test_a_401_says_how_to_authenticate(service: Service) -> None:
    missing = await service.client.get("/v1/credits/balance")
    invalid = await service.client.get("/v1/credits/balance", headers=bearer(credit_token(9)))
    of_a_token = await service.client.get(f"/v1/token/{TRACKED}", headers=bearer(credit_token(9)))

    assert [each.status_code for each in (missing, invalid, of_a_token)] == [401] * 3
    challenge = 'Bearer realm="mintscope"'
    assert missing.headers["www-authenticate"] == challenge
    for answer in (invalid, of_a_token):
        assert answer.headers["www-authenticate"] == f'{challenge}, error="invalid_token"'
