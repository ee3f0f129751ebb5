"""The doctor checks the settings of mail by a connection to the SMTP server."""

from typing import Any

import pytest
from pydantic import SecretStr

from mintscope.app.config.config import ApiConfig, MailConfig
from mintscope.app.config.groups import Config
from mintscope.app.doctor.finding import Finding, Level
from mintscope.app.doctor.machine import check_mail
from support.fakes.mail_server import CERTIFICATE, MailRoom, mail_room_beside

PUBLIC = ApiConfig(origin="https://api.example.org")


def findings(api: ApiConfig | None = None, **mail: Any) -> list[Finding]:
    return list(check_mail(Config(api=api or ApiConfig(), mail=MailConfig(**mail))))


def at(room: MailRoom, **changes: Any) -> dict[str, Any]:
    known = {
        "delivery": "smtp",
        "port": room.port,
        "security": "none",
        "sender": "no-reply@example.org",
        "timeout_s": 2.0,
    }
    return known | changes


def test_a_service_without_mail_is_warned_that_agents_cannot_confirm() -> None:
    (finding,) = findings(delivery="none")

    assert finding.level is Level.WARN
    assert "agents cannot confirm" in finding.what
    assert "mail.delivery" in finding.fix


def test_emails_on_a_page_need_no_server() -> None:
    (finding,) = findings(delivery="page")

    assert finding.level is Level.OK


def test_a_server_that_takes_emails_is_ok_and_gets_no_email() -> None:
    with mail_room_beside() as room:
        (finding,) = findings(PUBLIC, **at(room))

    assert finding.level is Level.OK
    assert f"127.0.0.1:{room.port}" in finding.what
    assert room.raw == []


def test_the_doctor_signs_in_to_the_server_and_hides_the_password(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(
        "SSL_CERT_FILE", str(CERTIFICATE)
    )  # the certificates that the machine trusts
    signing = {"security": "starttls", "username": "delivery"}
    with mail_room_beside("starttls", password="delivery:s3cret") as room:
        (right,) = findings(PUBLIC, **at(room, **signing, password=SecretStr("s3cret")))
        (wrong,) = findings(PUBLIC, **at(room, **signing, password=SecretStr("hunter2")))

    assert right.level is Level.OK
    assert "delivery" in right.what
    assert wrong.level is Level.FAIL
    assert "hunter2" not in str(wrong)


@pytest.mark.parametrize("security", ["starttls", "tls"])
def test_a_server_without_tls_fails_if_tls_is_configured(security: str) -> None:
    with mail_room_beside() as room:
        (finding,) = findings(PUBLIC, **at(room, security=security))

    assert finding.level is Level.FAIL
    assert "mail.security" in finding.fix


def test_a_server_that_is_down_fails() -> None:
    with mail_room_beside() as room:
        pass

    (finding,) = findings(PUBLIC, **at(room))

    assert finding.level is Level.FAIL


@pytest.mark.parametrize(
    ("origin", "sender", "what"),
    [
        (None, "no-reply@example.org", "http://127.0.0.1:8402"),
        ("http://api.example.org", "no-reply@example.org", "anyone on the network"),
        ("https://api.example.org", "mintscope@localhost", "mintscope@localhost"),
    ],
)
def test_a_local_or_unencrypted_origin_and_a_local_sender_are_warnings(
    origin: str | None, sender: str, what: str
) -> None:
    with mail_room_beside() as room:
        warning, server = findings(ApiConfig(origin=origin), **at(room, sender=sender))

    assert warning.level is Level.WARN
    assert what in warning.what
    assert server.level is Level.OK
