"""An api process serves administration on a separate port, and no pages if they are disabled."""

import re
from pathlib import Path

import httpx

from support.processes.api_process import api_process, settings
from support.processes.servers import free_port

BROWSER = {"accept": "text/html"}
ME, ADMIN = "/v1/me", "/admin"


def test_administration_with_its_own_listener_is_on_no_other_listener(tmp_path: Path) -> None:
    log, port = tmp_path / "log", free_port()
    with api_process(settings(tmp_path, MINTSCOPE_WEB__ADMIN_PORT=str(port)), log) as public:
        (own,) = re.findall(
            r'"address": "(http://[^"]+)", "event": "serving admin', log.read_text()
        )
        answers = {
            (place, path): httpx.get(f"{origin}{path}", headers=BROWSER, timeout=10)
            for place, origin in (("public", public), ("own", own))
            for path in (ADMIN, ME, "/sign-up", "/sign-in", "/mailbox", "/nothing")
        }

    assert {where: answer.status_code for where, answer in answers.items()} == {
        ("public", ADMIN): 404,
        ("public", ME): 401,
        ("public", "/sign-up"): 200,
        ("public", "/sign-in"): 200,
        ("public", "/mailbox"): 200,
        ("public", "/nothing"): 404,
        ("own", ADMIN): 303,
        ("own", ME): 404,
        ("own", "/sign-up"): 404,
        ("own", "/sign-in"): 200,
        ("own", "/mailbox"): 404,
        ("own", "/nothing"): 404,
    }
    assert answers["own", ADMIN].headers["location"].startswith("/sign-in")


def test_a_service_without_pages_serves_only_the_api(tmp_path: Path) -> None:
    environment = settings(
        tmp_path,
        MINTSCOPE_WEB__ENABLED="false",
        MINTSCOPE_WEB__ADMIN_PORT=str(free_port()),
        MINTSCOPE_MAIL__DELIVERY="none",
    )
    log = tmp_path / "log"
    with api_process(environment, log) as origin:
        page = httpx.get(f"{origin}/", headers=BROWSER, timeout=10)
        me = httpx.get(f"{origin}{ME}", timeout=10)

    assert (page.status_code, page.json()["error"]["code"]) == (404, "NOT_FOUND")
    assert me.status_code == 401
    assert "serving administrators" not in log.read_text()
