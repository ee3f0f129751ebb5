"""E-mails of a whole process through a real SMTP server, and requests while that server hangs."""

import re
import socket
import threading
from pathlib import Path

import httpx

from support.fakes.mail_server import mail_room_beside
from support.processes.api_process import api_process, settings
from support.scenes.accounts_service import (
    CONFIRM_PATH,
    EMAIL,
    SIGNUP_PATH,
    STATUS_PATH,
    signup_body,
)

ARRIVAL_S = 20


def by_smtp(folder: Path, port: int, **more: str) -> dict[str, str]:
    return settings(
        folder,
        MINTSCOPE_MAIL__DELIVERY="smtp",
        MINTSCOPE_MAIL__PORT=str(port),
        MINTSCOPE_MAIL__SECURITY="none",
        MINTSCOPE_MAIL__SENDER="no-reply@example.org",
        **more,
    )


def test_an_agent_confirms_with_the_mailed_code(tmp_path: Path) -> None:
    is_there = threading.Event()
    with (
        mail_room_beside(accepted=is_there.set) as room,
        api_process(by_smtp(tmp_path, room.port), tmp_path / "log") as origin,
        httpx.Client(base_url=origin, timeout=10) as client,
    ):
        secret = client.post(SIGNUP_PATH, json=signup_body()).json()["applicationSecret"]
        assert is_there.wait(ARRIVAL_S)
        (message,) = room.messages
        (code,) = re.findall(r"(?m)^\d{8}\r?$", message.get_content())
        known = {"email": EMAIL, "applicationSecret": secret}
        confirmed = client.post(CONFIRM_PATH, json=known | {"code": code.strip()})
        state = client.post(STATUS_PATH, json=known)

    assert confirmed.status_code == 200
    assert message["To"] == EMAIL
    assert f"{origin}/confirm/" in message.get_content()
    assert "awaiting_approval" in state.text


def test_a_mail_server_that_hangs_delays_no_request(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        environment = by_smtp(tmp_path, silent.getsockname()[1])
        with (
            api_process(environment, tmp_path / "log") as origin,
            httpx.Client(base_url=origin, timeout=10) as client,
        ):
            first = client.post(SIGNUP_PATH, json=signup_body())
            silent.settimeout(ARRIVAL_S)
            connection, _ = silent.accept()  # the delivery is waiting for a greeting
            second = client.post(SIGNUP_PATH, json=signup_body("another@example.org"))
        connection.close()

    assert (first.status_code, second.status_code) == (201, 201)
