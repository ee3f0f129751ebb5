"""POST /api/public/beta-signup: an agent applies for an API key, and awaits approval."""

import re
from typing import Any

import pytest

from mintscope.kit.credentials import CredentialKind, is_well_formed
from support.scenes.accounts_service import EMAIL, SIGNUP_PATH, signup_body
from support.scenes.service import Service


async def refused(service: Service, **sent: Any) -> list[dict[str, str]]:
    """Send a signup that must be refused as a whole; return its messages."""
    response = await service.client.post(SIGNUP_PATH, **sent)

    assert response.status_code == 400, response.text
    body = response.json()
    assert body.keys() == {"success", "status", "error", "messages"}
    assert (body["success"], body["status"]) == (False, "error")
    assert body["error"]["code"] == "VALIDATION_ERROR"
    assert body["error"].keys() == {"code", "message"}
    assert all(message.keys() == {"field", "message"} for message in body["messages"])
    assert service.accounts.rows("SELECT count(*) FROM application") == [(0,)]
    return list(body["messages"])


async def test_application_secret_returned_once(service: Service) -> None:
    response = await service.client.post(
        SIGNUP_PATH, json=signup_body(telegram="@agent", twitter="@agent")
    )

    assert response.status_code == 201
    assert response.headers["cache-control"] == "no-store"
    body = response.json()
    assert body.keys() == {"success", "signupId", "applicationSecret", "instructions"}
    assert body["success"] is True
    assert isinstance(body["signupId"], int)
    assert re.fullmatch("svc_app_[0-9a-f]{64}", body["applicationSecret"])
    assert is_well_formed(CredentialKind.APPLICATION_SECRET, body["applicationSecret"])
    assert "confirm-email" in body["instructions"]


async def test_the_application_is_stored_trimmed_and_without_its_secret(
    service: Service,
) -> None:
    sent = signup_body(telegram=" @a ", twitter=None, userType="both", motivation=" To trade.\n ")
    secret = (await service.client.post(SIGNUP_PATH, json=sent)).json()["applicationSecret"]

    assert service.accounts.rows(
        "SELECT email, telegram, twitter, user_type, motivation, state FROM application"
    ) == [(EMAIL, "@a", None, "both", "To trade.", "awaiting_confirmation")]
    for table in ("application", "account_event", "proof"):
        assert secret not in repr(service.accounts.rows(f"SELECT * FROM {table}"))


async def test_an_application_may_ask_for_scopes(service: Service) -> None:
    asked = ["trade:write", "groups:write", "trade:write"]
    response = await service.client.post(SIGNUP_PATH, json=signup_body(scopes=asked))

    assert response.status_code == 201
    assert service.accounts.rows("SELECT asked_scopes, scopes FROM application") == [
        ('["trade:write","groups:write"]', "[]")  # no scope is granted before the review
    ]


@pytest.mark.parametrize("user_type", ["trader", "provider", "both"])
async def test_user_type_is_one_of_trader_provider_both(service: Service, user_type: str) -> None:
    response = await service.client.post(SIGNUP_PATH, json=signup_body(userType=user_type))

    assert response.status_code == 201


async def test_unknown_fields_are_ignored(service: Service) -> None:
    response = await service.client.post(SIGNUP_PATH, json=signup_body(wallet="x"))

    assert response.status_code == 201


async def test_409_duplicate_application(service: Service) -> None:
    await service.client.post(SIGNUP_PATH, json=signup_body())

    response = await service.client.post(SIGNUP_PATH, json=signup_body(motivation="Again."))

    assert response.status_code == 409
    body = response.json()
    assert body.keys() == {"success", "status", "error", "messages"}
    assert (body["success"], body["status"]) == (False, "error")
    assert body["error"]["code"] == "DUPLICATE_APPLICATION"
    assert body["messages"] == [{"field": "general", "message": body["error"]["message"]}]


@pytest.mark.parametrize(
    "email", ["AGENT@Example.ORG", " agent@example.org\n", "\uff41gent@example.org"]
)
async def test_an_email_address_in_another_spelling_is_a_duplicate(
    service: Service, email: str
) -> None:
    await service.client.post(SIGNUP_PATH, json=signup_body())

    response = await service.client.post(SIGNUP_PATH, json=signup_body(email))

    assert response.status_code == 409


async def test_the_same_idempotency_key_gives_the_same_answer(service: Service) -> None:
    key = {"idempotency-key": "a-key-that-is-hard-to-guess"}
    first = await service.client.post(SIGNUP_PATH, json=signup_body(), headers=key)
    again = await service.client.post(SIGNUP_PATH, json=signup_body(), headers=key)
    other = await service.client.post(
        SIGNUP_PATH, json=signup_body(), headers={"idempotency-key": "another-that-is-hard-too"}
    )

    assert first.status_code == again.status_code == 201
    assert first.json() == again.json()
    assert other.status_code == 409


async def test_a_short_idempotency_key_is_refused(service: Service) -> None:
    messages = await refused(service, json=signup_body(), headers={"idempotency-key": "1"})

    assert messages[0]["field"] == "general"
    assert messages[0]["message"].startswith("Idempotency-Key: expected one key of 16 to 128")


@pytest.mark.parametrize(
    ("fields", "field", "message"),
    [
        ({"email": None}, "email", "expected a value; it is missing"),
        ({"email": ""}, "email", "expected an e-mail address; it is empty"),
        ({"email": 7}, "email", "expected a string; was a number"),
        ({"email": "agent"}, "email", "expected an e-mail address, as name@example.org."),
        ({"email": "a@b@example.org"}, "email", "expected an e-mail address, as"),
        ({"email": f"{'a' * 250}@example.org"}, "email", "expected at most 254 characters"),
        ({"email": "a@example.org, b@example.org"}, "email", "expected an e-mail address, as"),
        ({"userType": None}, "userType", "expected a value; it is missing"),
        ({"userType": "admin"}, "userType", "expected one of trader, provider, both; was 'admin'"),
        ({"userType": ["trader"]}, "userType", "expected a string; was a list"),
        ({"scopes": "trade:write"}, "scopes", "expected a list of scopes among trade:read"),
        ({"scopes": ["trade:write", 1]}, "scopes", "expected a list of scopes among trade:read"),
        ({"scopes": ["trade:all"]}, "scopes", "expected scopes among trade:read"),
        ({"motivation": None}, "motivation", "expected a value; it is missing"),
        ({"motivation": " \n"}, "motivation", "expected why access is wanted and what for"),
        (
            {"motivation": "x" * 4_001},
            "motivation",
            "expected at most 4000 characters; there were 4001",
        ),
        ({"motivation": "a\x00b"}, "motivation", "expected text; it holds control characters"),
        ({"telegram": "x" * 65}, "telegram", "expected at most 64 characters; there were 65"),
        ({"telegram": {}}, "telegram", "expected a string; was an object"),
        ({"twitter": "a\nb"}, "twitter", "expected one line of text; it holds control"),
        ({"twitter": True}, "twitter", "expected a string; was a boolean"),
    ],
)
async def test_400_validation_error_names_the_field(
    service: Service, fields: dict[str, Any], field: str, message: str
) -> None:
    (reported,) = await refused(service, json=signup_body() | fields)

    assert reported["field"] == field
    assert reported["message"].startswith(message)


async def test_all_invalid_fields_are_reported_at_once(service: Service) -> None:
    messages = await refused(service, json={"telegram": 1, "userType": ""})

    assert [message["field"] for message in messages] == [
        "email", "telegram", "userType", "motivation",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "expected a JSON object; the body is empty"),
        (b"{", "expected a JSON object; the body is not complete JSON"),
        (b"[]", "expected a JSON object; the body is another JSON value"),
        (b"null", "expected a JSON object; the body is another JSON value"),
        (b"\xff", "expected a JSON object; the body is not JSON"),
        (b'{"email": "\\ud800"}', "expected a JSON object; the body is not complete JSON"),
        (b'{"email": NaN}', "expected a JSON object; the body is not JSON"),
        (b'{"email": "a@b.org", "email": "c@d.org"}', "expected each field once; one is there"),
        (b'{"x": [{"y": 1, "y": 1}]}', "expected each field once; one is there twice"),
        (b'{"x":' + b"[" * 8 + b"]" * 8 + b"}", "expected JSON at most 8 deep"),
        (b'{"x":' + b"[" * 8_000 + b"]" * 8_000 + b"}", "expected JSON at most 8 deep"),
    ],
)
async def test_an_unreadable_body_is_400_with_the_field_general(
    service: Service, body: bytes, message: str
) -> None:
    json = {"content-type": "application/json"}
    (reported,) = await refused(service, content=body, headers=json)

    assert reported["field"] == "general"
    assert reported["message"].startswith(message)


async def test_a_body_of_eight_levels_is_accepted(service: Service) -> None:
    nested: Any = 1
    for _ in range(7):
        nested = [nested]

    response = await service.client.post(SIGNUP_PATH, json=signup_body(extra=nested))

    assert response.status_code == 201


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "application/jsonp", ""]
)
async def test_all_bodies_are_json(service: Service, kind: str) -> None:
    (reported,) = await refused(
        service, content=b'{"email": "agent@example.org"}', headers={"content-type": kind}
    )

    assert reported == {
        "field": "general",
        "message": f"expected Content-Type: application/json; was {kind!r}",
    }


@pytest.mark.parametrize(
    "kind",
    [
        "Application/JSON; charset=utf-8",
        'application/json;charset="UTF-8"; x=y',
        "application/json;",
    ],
)
async def test_a_content_type_with_the_charset_utf_8_is_accepted(
    service: Service, kind: str
) -> None:
    response = await service.client.post(
        SIGNUP_PATH,
        content=b'{"email":"a@example.org","userType":"both","motivation":"x"}',
        headers={"content-type": kind},
    )

    assert response.status_code == 201


@pytest.mark.parametrize("charset", ["utf-16", '"UTF-16"', "iso-8859-1", ""])
async def test_a_content_type_with_another_charset_than_utf_8_is_refused(
    service: Service, charset: str
) -> None:
    kind = f"application/json; charset={charset}"
    (reported,) = await refused(
        service, content=b'{"email": "agent@example.org"}', headers={"content-type": kind}
    )

    assert reported == {
        "field": "general",
        "message": f"expected Content-Type: application/json, in UTF-8; was {kind!r}",
    }


async def test_a_large_body_is_413_in_both_shapes(service: Service) -> None:
    response = await service.client.post(SIGNUP_PATH, json=signup_body(extra="x" * 16_384))

    assert response.status_code == 413
    body = response.json()
    assert body["error"]["code"] == "PAYLOAD_TOO_LARGE"
    assert body["messages"][0]["field"] == "general"


async def test_other_methods_are_405_in_both_shapes(service: Service) -> None:
    response = await service.client.get(SIGNUP_PATH)

    assert (response.status_code, response.headers["allow"]) == (405, "POST")
    assert response.json()["error"]["code"] == "METHOD_NOT_ALLOWED"
    assert response.json()["status"] == "error"


@pytest.mark.parametrize(
    "email",
    [
        "a@example.org\r\nBcc: b@example.org",
        "a@example.org\nSubject: x",
        "a\r\n@example.org",
        "a@example.org\x00",
        "a@example.org%0d%0aBcc: b@example.org",
        '"a\r\n"@example.org',
        "A <a@example.org>",
        "a@[127.0.0.1]",
        "a@example.org\u2028Bcc: b@example.org",
    ],
)
async def test_an_address_that_could_add_an_email_header_is_refused(
    service: Service, email: str
) -> None:
    (reported,) = await refused(service, json=signup_body(email))

    assert reported["field"] == "email"
    assert service.accounts.rows("SELECT count(*) FROM letter") == [(0,)]


async def test_markup_in_an_application_is_stored_unchanged_and_in_no_email(
    service: Service,
) -> None:
    text = "<script>alert(1)</script> http://evil.example"
    await service.client.post(SIGNUP_PATH, json=signup_body(motivation=text))

    assert service.accounts.rows("SELECT motivation FROM application") == [(text,)]
    ((facts,),) = service.accounts.rows("SELECT facts FROM letter")
    assert "evil" not in facts
