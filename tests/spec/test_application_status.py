"""POST /api/auth/application-status: the state of an application, without issuing its API key."""

from typing import Any

import httpx
import pytest

from support.scenes.accounts_service import EMAIL, SIGNUP_PATH, STATUS_PATH, signup_body
from support.scenes.service import Service


@pytest.fixture
async def secret(service: Service) -> str:
    response = await service.client.post(SIGNUP_PATH, json=signup_body())
    return str(response.json()["applicationSecret"])


async def ask(service: Service, secret: Any, email: Any = EMAIL) -> httpx.Response:
    return await service.client.post(
        STATUS_PATH, json={"email": email, "applicationSecret": secret}
    )


async def test_the_answer_has_the_state_and_a_message(service: Service, secret: str) -> None:
    response = await ask(service, secret)

    assert response.status_code == 200
    assert response.headers["cache-control"] == "no-store"
    assert response.json() == {
        "success": True,
        "state": "awaiting_confirmation",
        "message": "Confirm the mailbox with the code of the e-mail.",
    }


async def test_wrong_credentials_are_401_with_the_same_body(service: Service, secret: str) -> None:
    answers = [
        await ask(service, "svc_app_" + "0" * 64),
        await ask(service, "svc_app_" + "0" * 64, "stranger@example.org"),
        await ask(service, secret, "stranger@example.org"),
        await ask(service, "x"),
    ]

    assert {answer.status_code for answer in answers} == {401}
    assert len({answer.content for answer in answers}) == 1
    assert answers[0].json()["error"]["code"] == "INVALID_CREDENTIALS"


@pytest.mark.parametrize("field", ["email", "applicationSecret"])
async def test_400_validation_error_names_the_field(service: Service, field: str) -> None:
    body: dict[str, Any] = {"email": EMAIL, "applicationSecret": "x"}

    response = await service.client.post(STATUS_PATH, json=body | {field: None})

    assert response.status_code == 400
    assert [reported["field"] for reported in response.json()["messages"]] == [field]
