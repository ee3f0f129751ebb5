"""POST /api/auth/confirm-email: an agent confirms its mailbox with a code from an e-mail."""

from typing import Any

import pytest

from support.scenes.accounts_service import (
    CONFIRM_PATH,
    EMAIL,
    SIGNUP_PATH,
    STATUS_PATH,
    signup_body,
)
from support.scenes.service import Service

HOUR_MS = 3_600_000


@pytest.fixture
async def secret(service: Service) -> str:
    response = await service.client.post(SIGNUP_PATH, json=signup_body())
    return str(response.json()["applicationSecret"])


async def confirm(service: Service, secret: str, code: str, email: str = EMAIL) -> Any:
    return await service.client.post(
        CONFIRM_PATH, json={"email": email, "applicationSecret": secret, "code": code}
    )


async def state(service: Service, secret: str) -> str:
    body = {"email": EMAIL, "applicationSecret": secret}
    return str((await service.client.post(STATUS_PATH, json=body)).json()["state"])


def wrong(code: str) -> str:
    return f"{(int(code) + 1) % 10**8:08d}"


async def test_the_code_of_the_email_confirms_the_address(service: Service, secret: str) -> None:
    assert await state(service, secret) == "awaiting_confirmation"

    response = await confirm(service, secret, service.accounts.code())

    assert response.status_code == 200
    assert response.headers["cache-control"] == "no-store"
    assert response.json().keys() == {"success", "message"}
    assert response.json()["success"] is True
    assert await state(service, secret) == "awaiting_approval"


async def test_confirming_again_changes_nothing(service: Service, secret: str) -> None:
    code = service.accounts.code()
    await confirm(service, secret, code)

    assert (await confirm(service, secret, code)).status_code == 200
    assert await state(service, secret) == "awaiting_approval"


async def test_a_wrong_code_is_400_with_the_field_code(service: Service, secret: str) -> None:
    response = await confirm(service, secret, wrong(service.accounts.code()))

    assert response.status_code == 400
    assert response.json()["error"]["code"] == "VALIDATION_ERROR"
    assert [reported["field"] for reported in response.json()["messages"]] == ["code"]
    assert await state(service, secret) == "awaiting_confirmation"


async def test_the_right_code_is_refused_after_five_wrong_codes(
    service: Service, secret: str
) -> None:
    code = service.accounts.code()
    for _ in range(5):
        assert (await confirm(service, secret, wrong(code))).status_code == 400

    assert (await confirm(service, secret, code)).status_code == 400
    assert await state(service, secret) == "awaiting_confirmation"


async def test_a_code_expires_after_72_hours(service: Service, secret: str) -> None:
    code = service.accounts.code()
    service.clock.advance(72 * HOUR_MS)

    assert (await confirm(service, secret, code)).status_code == 400


async def test_an_application_is_confirmed_with_its_secret_only(
    service: Service, secret: str
) -> None:
    code = service.accounts.code()
    for stranger in ("svc_app_" + "0" * 64, "x", secret[:-1]):
        response = await confirm(service, stranger, code)

        assert response.status_code == 401
        assert response.json()["error"]["code"] == "INVALID_CREDENTIALS"
    assert (await confirm(service, secret, code, email="b@example.org")).status_code == 401
    assert await state(service, secret) == "awaiting_confirmation"


async def test_the_code_of_one_email_confirms_no_other_application(service: Service) -> None:
    mine = (await service.client.post(SIGNUP_PATH, json=signup_body("mine@example.org"))).json()
    await service.client.post(SIGNUP_PATH, json=signup_body())

    response = await confirm(
        service, mine["applicationSecret"], service.accounts.code(), email="mine@example.org"
    )

    assert response.status_code == 400


@pytest.mark.parametrize("field", ["email", "applicationSecret", "code"])
async def test_400_validation_error_names_the_field(
    service: Service, secret: str, field: str
) -> None:
    body: dict[str, Any] = {"email": EMAIL, "applicationSecret": secret, "code": "12345678"}

    for value in (None, 7):
        response = await service.client.post(CONFIRM_PATH, json=body | {field: value})

        assert response.status_code == 400
        assert [reported["field"] for reported in response.json()["messages"]] == [field]
