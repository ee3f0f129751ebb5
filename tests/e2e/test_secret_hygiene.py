"""No secret that a client holds is in the log, the files or the metrics of a process at DEBUG."""

import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from html import unescape
from http.cookies import SimpleCookie
from pathlib import Path

import httpx
import pytest

from support.processes.api_process import api_process, settings
from support.processes.api_process import command as run
from support.processes.listening import addresses_in
from support.processes.servers import free_port
from support.scenes.accounts_service import (
    CONFIRM_PATH,
    EXCHANGE_PATH,
    SIGNUP_PATH,
    STATUS_PATH,
    signup_body,
)

AGENT, PERSON = "agent@example.org", "person@example.org"
PASSWORD, NEW_PASSWORD = "correct horse battery staple", "another horse, another battery"


class Client:
    """The client of an agent and of a person; it remembers every secret that it gets or sends."""

    def __init__(self, http: httpx.Client) -> None:
        self.http = http
        self.origin = str(http.base_url).rstrip("/")
        self.cookie = ""
        self.secrets: dict[str, str] = {}

    def keep(self, name: str, secret: str) -> str:
        assert len(secret) >= 8, name
        self.secrets[name] = secret
        return secret

    def tell(self, path: str, body: Mapping[str, str], **headers: str) -> httpx.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.http.post(path, json=body, headers=named)

    def newest_email(self, email: str) -> str:
        page = self.http.get("/mailbox", params={"to": email}).text
        number = re.findall(r'href="/mailbox/(\d+)"', page)[0]
        return self.http.get(f"/mailbox/{number}.txt").text

    def link(self, name: str, email: str) -> str:
        (link,) = re.findall(r"http://\S+/(?:confirm|verify|reset)/\S+", self.newest_email(email))
        self.keep(name, link.rpartition("/")[2])
        return str(link.removeprefix(self.origin))

    def open(self, path: str) -> httpx.Response:
        return self.http.get(path, headers={"cookie": self.cookie, "accept": "text/html"})

    def send(self, path: str, fields: Mapping[str, str]) -> httpx.Response:
        """Send the form *fields* to *path* in the session, with the CSRF token if there is one."""
        page = self.open("/").text
        csrf = re.search(r'name="csrf" value="([^"]+)"', page)
        data = dict(fields)
        if csrf:
            data["csrf"] = self.keep("csrf", csrf[1])
        response = self.http.post(
            path,
            data=data,
            headers={"cookie": self.cookie, "origin": self.origin, "accept": "text/html"},
        )
        for name, morsel in SimpleCookie(response.headers.get("set-cookie", "")).items():
            if morsel.value:
                self.cookie = f"{name}={self.keep(f'cookie {len(self.secrets)}', morsel.value)}"
        return response


def be_an_agent(client: Client, environment: Mapping[str, str]) -> None:
    idempotency = client.keep("idempotency key", "an-idempotency-key-no-one-guesses")
    signed_up = client.tell(SIGNUP_PATH, signup_body(AGENT), idempotency_key=idempotency).json()
    secret = client.keep("application secret", signed_up["applicationSecret"])
    own = {"email": AGENT, "applicationSecret": secret}
    code = client.keep("code", re.findall(r"^\d{8}$", client.newest_email(AGENT), re.MULTILINE)[0])
    client.link("confirmation", AGENT)
    assert client.tell(CONFIRM_PATH, own | {"code": "00000000"}).status_code == 400
    assert client.tell(CONFIRM_PATH, own | {"code": code}).status_code == 200
    assert client.tell(STATUS_PATH, own).status_code == 200
    assert client.tell(EXCHANGE_PATH, own | {"applicationSecret": secret[:-1]}).status_code == 401
    command(environment, "applications", "approve", str(signed_up["signupId"]))
    exchanged = client.tell(EXCHANGE_PATH, own, idempotency_key=f"{idempotency}-2")
    client.keep("second idempotency key", f"{idempotency}-2")
    key = client.keep("API key", exchanged.json()["apiKey"])
    for bearer, status in ((key, 200), (key[:-1], 401), (secret, 401)):
        me = client.http.get("/v1/me", headers={"authorization": f"Bearer {bearer}"})
        assert me.status_code == status
    in_query = client.http.get(f"/v1/me?key={key}")
    assert in_query.status_code == 401


def be_a_person(client: Client) -> None:
    client.keep("password", PASSWORD)
    client.keep("new password", NEW_PASSWORD)
    assert client.send("/sign-up", {"email": PERSON, "password": PASSWORD}).status_code == 303
    assert client.send(client.link("verification", PERSON), {}).status_code == 303
    wish = "/settings/api-keys/new/review?name=bot&trade=write&lifetime=30d"
    newest = re.search(r'name="newest" value="([^"]*)"', client.open(wish).text)
    assert newest is not None
    shown = client.send(wish, {"newest": newest[1]})
    key = client.keep("own API key", re.findall("svc_live_[0-9a-f]{80}", unescape(shown.text))[0])
    me = client.http.get("/v1/me", headers={"authorization": f"Bearer {key}"})
    assert me.json()["data"]["keyName"] == "bot"
    wrong = client.send("/sign-in", {"email": PERSON, "password": f"{PASSWORD}!"})
    assert wrong.status_code in {303, 422}
    client.send("/forgot", {"email": PERSON})
    reset = client.link("reset", PERSON)
    assert client.open(reset).status_code == 200
    assert client.send(reset, {"password": NEW_PASSWORD}).status_code == 303
    client.cookie = ""
    signed_in = client.send("/sign-in", {"email": PERSON, "password": NEW_PASSWORD})
    assert signed_in.status_code == 303


def command(environment: Mapping[str, str], *words: str) -> str:
    ran = run(environment, *words)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


def found_in(content: bytes, secrets: Mapping[str, str]) -> list[str]:
    """Return the names of the secrets that are in *content*, as text or as the bytes of its hex."""
    found = []
    for name, secret in secrets.items():
        digits = secret.rpartition("_")[2]
        is_hex = re.fullmatch("(?:[0-9a-f]{2}){16,}", digits) is not None
        forms = [secret.encode(), *([bytes.fromhex(digits)] if is_hex else [])]
        if any(form in content for form in forms):
            found.append(name)
    return found


def test_no_secret_is_written_anywhere(tmp_path: Path) -> None:
    log, metrics_port = tmp_path / "log", free_port()
    environment = settings(
        tmp_path,
        MINTSCOPE_LOG__LEVEL="debug",
        MINTSCOPE_METRICS__ENABLED="true",
        MINTSCOPE_METRICS__API_PORT=str(metrics_port),
        MINTSCOPE_ACCOUNTS__EXCHANGE_LIMIT_REQUESTS="100",
    )
    with api_process(environment, log) as origin:
        with httpx.Client(base_url=origin, timeout=20) as http:
            client = Client(http)
            be_an_agent(client, environment)
            be_a_person(client)
        client.keep("credit token", command(environment, "credits", "issue", "--credits", "1"))
        client.keep("pepper", (tmp_path / "data" / "pepper").read_text().strip())
        metrics = httpx.get(f"http://127.0.0.1:{metrics_port}/metrics").content
        files = kept(tmp_path)
    places = {
        "log": log.read_bytes(),
        "metrics": metrics,
        **{f"{name}, running": content for name, content in files.items()},
        **{f"{name}, ended": content for name, content in kept(tmp_path).items()},
    }

    found = {name: found_in(content, client.secrets) for name, content in places.items()}
    assert {name: names for name, names in found.items() if names} == {}
    assert len(client.secrets) >= 15
    assert AGENT.encode() in places["money.sqlite, ended"]  # proof that stored text is found
    assert b"mintscope_request_s" in metrics
    assert b"/api/auth/exchange-secret" in metrics
    assert files["money.sqlite-wal"]


def test_a_crash_leaves_no_core_file(tmp_path: Path) -> None:
    """The process inherits the largest limit of core files that the machine allows."""
    _, most = resource.getrlimit(resource.RLIMIT_CORE)
    if most == 0:
        pytest.skip("did not run: this machine allows no core files at all")
    environment, log = settings(tmp_path), tmp_path / "log"
    with (
        log.open("wb") as stderr,
        subprocess.Popen(
            [
                "/bin/sh",
                "-c",
                'ulimit -c "$(ulimit -Hc)"; exec "$0" -m mintscope api',
                sys.executable,
            ],
            env=environment,
            cwd=tmp_path,
            stderr=stderr,
        ) as process,
    ):
        try:
            wait_until_served(log)
            limits = Path(f"/proc/{process.pid}/limits").read_text()
            process.send_signal(signal.SIGABRT)
            assert process.wait(20) == -signal.SIGABRT
        finally:
            process.kill()

    assert re.search(r"^Max core file size +0 +0 ", limits, re.MULTILINE)
    assert [path.name for path in tmp_path.iterdir() if "core" in path.name] == []


def wait_until_served(log: Path) -> None:
    end_s = time.monotonic() + 60
    while not addresses_in(log.read_text()):
        assert time.monotonic() < end_s, log.read_text()
        time.sleep(0.05)


def kept(folder: Path) -> dict[str, bytes]:
    """Return the stored files of the service, except the pepper."""
    return {
        path.name: path.read_bytes()
        for path in (folder / "data").rglob("*")
        if path.is_file() and path.name != "pepper"
    }
