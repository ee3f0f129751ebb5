"""Sign up as an agent, from the application to the first request with the API key.

    python -m mintscope_client.examples.agent_signup http://127.0.0.1:8402

Copy this file: it needs httpx and no mintscope package.  `mintscope demo` starts a service to try
it with.  From the demo, the script reads the code on the mailbox page.  You approve the application
at /admin, or the script does, with `--approve-with "mintscope applications approve {id}"`.
"""

import argparse
import re
import secrets
import shlex
import subprocess
import time
from typing import Any

import httpx

APPROVAL_S = 48 * 3600


class Agent:
    """A program that applies for an API key with an e-mail address, and uses the key."""

    def __init__(self, service: httpx.Client, email: str, poll_s: float) -> None:
        self.service = service
        self.email = email
        self.poll_s = poll_s
        self.secret = ""

    def sign_up(self) -> int:
        """Apply for an API key; return the number of the application."""
        answer = self.post(
            "/api/public/beta-signup",
            {
                "email": self.email,
                "userType": "trader",
                "motivation": "I trade by myself and want to read signals and place orders.",
            },
            key=secrets.token_urlsafe(24),  # with this key, a lost answer can be requested again
        )
        if answer.status_code != 201:
            raise SystemExit(f"expected 201, was {reported(answer)}")
        self.secret = answer.json()["applicationSecret"]  # returned only here: store it safely
        return int(answer.json()["signupId"])

    def read_code(self) -> str:
        """Return the confirmation code from the e-mail, which the demo shows on a page.

        In your copy, read the e-mail by IMAP.
        """
        page = self.service.get("/mailbox", params={"to": self.email})
        number = re.search(r'href="/mailbox/(\d+)"', page.raise_for_status().text)
        if number is None:
            raise SystemExit(f"expected an e-mail to {self.email} at {page.url}")
        text = self.service.get(f"/mailbox/{number[1]}.txt").raise_for_status().text
        code = re.search(r"^(\d{8})\s*$", text, re.MULTILINE)
        if code is None:
            raise SystemExit(f"expected a code of eight digits; the e-mail says:\n{text}")
        return code[1]

    def confirm(self, code: str) -> httpx.Response:
        """Send the code of the e-mail, to prove that the agent owns the mailbox."""
        return self.post("/api/auth/confirm-email", self.credentials() | {"code": code})

    def status(self) -> httpx.Response:
        """Request the status of the application; this does not count as an exchange attempt."""
        return self.post("/api/auth/application-status", self.credentials())

    def exchange(self, key: str | None = None) -> httpx.Response:
        """Request the API key; the status is 401 until the approval, 429 if requested too often."""
        return self.post("/api/auth/exchange-secret", self.credentials(), key=key)

    def wait_for_key(self) -> dict[str, Any]:
        """Request the API key until it is issued; return the answer with the key."""
        key = secrets.token_urlsafe(24)
        waited_until = time.monotonic() + APPROVAL_S
        while time.monotonic() < waited_until:
            answer = self.exchange(key)
            if answer.status_code == 200:
                return dict(answer.json())
            if answer.status_code not in {401, 429, 503}:
                raise SystemExit(f"expected a key, was {reported(answer)}")
            if self.status().json().get("state") == "rejected":
                raise SystemExit("the application was rejected")
            time.sleep(max(self.poll_s, int(answer.headers.get("retry-after", 0))))
        raise SystemExit("the application was not approved within 48 hours")

    def me(self, api_key: str) -> httpx.Response:
        """Request the owner and the scopes of the API key."""
        return self.service.get("/v1/me", headers={"authorization": f"Bearer {api_key}"})

    def credentials(self) -> dict[str, str]:
        return {"email": self.email, "applicationSecret": self.secret}

    def post(self, path: str, body: dict[str, str], key: str | None = None) -> httpx.Response:
        headers = {} if key is None else {"idempotency-key": key}
        return self.service.post(path, json=body, headers=headers)


def reported(answer: httpx.Response) -> str:
    """Return one line about *answer*: its status, and its state, message or error."""
    body = answer.json()
    if answer.is_success:
        return f"{answer.status_code} {body.get('state') or body.get('message', '')}"
    code = body["error"]["code"] if "error" in body else answer.headers["x-error-code"]
    wait = f", retryAfter {body['retryAfter']}" if "retryAfter" in body else ""
    words = body["messages"][0]["message"] if "messages" in body else body["error"]["message"]
    return f"{answer.status_code} {code}{wait}: {words}"


def show(what: str, outcome: object) -> None:
    print(f"{what:34} {outcome}", flush=True)


def run(command: str, **values: object) -> None:
    """Print and run the shell command *command*, with each `{name}` replaced by a value."""
    words = [word.format(**values) for word in shlex.split(command)]
    show("  an administrator", " ".join(words[-4:]))
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    options.add_argument("origin", nargs="?", default="http://127.0.0.1:8402")
    options.add_argument("--email", default=f"agent-{secrets.token_hex(4)}@example.org")
    options.add_argument("--approve-with", metavar="COMMAND", help="{id} is the application")
    options.add_argument("--remove-with", metavar="COMMAND", help="{user} is the account")
    options.add_argument(
        "--poll-s", type=float, default=5, help="the service takes one exchange in 5 s"
    )
    asked = options.parse_args()
    with httpx.Client(base_url=asked.origin, timeout=20) as service:
        walk(Agent(service, asked.email, asked.poll_s), asked.approve_with, asked.remove_with)


def walk(agent: Agent, approve_with: str | None, remove_with: str | None) -> None:
    """Sign up, use the API key, and run *remove_with*, if any; print the result of each step."""
    number = agent.sign_up()
    show("sign up", f"201 application {number} of {agent.email}, secret {agent.secret[:12]}...")
    show("exchange, not approved", reported(agent.exchange()))
    show("exchange, too fast", reported(agent.exchange()))
    show("confirm the mailbox", reported(agent.confirm(agent.read_code())))
    show("status", reported(agent.status()))
    if approve_with:
        run(approve_with, id=number)
    else:
        show(
            "waiting for approval", f"{agent.service.base_url.join('/admin')}, application {number}"
        )
    issued = agent.wait_for_key()
    show("exchange", f"200 {issued['username']} has {issued['keyHint']}: {issued['scopes']}")
    me = agent.me(issued["apiKey"])
    show("GET /v1/me", f"{me.status_code} {me.json()['data']}")
    time.sleep(agent.poll_s)
    show("exchange again", reported(agent.exchange()))
    again = agent.post(
        "/api/public/beta-signup",
        {"email": agent.email, "userType": "both", "motivation": "Once more."},
    )
    show("sign up again", reported(again))
    if remove_with:
        run(remove_with, user=issued["userId"])
        time.sleep(agent.poll_s)
        show("exchange, account removed", reported(agent.exchange()))
        show("GET /v1/me, account removed", reported(agent.me(issued["apiKey"])))


if __name__ == "__main__":
    main()
