"""The example program of an agent, run against a whole api process, takes every step."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

from support.processes.api_process import api_process, settings

EXAMPLE = "mintscope_client.examples.agent_signup"
MINTSCOPE = f"{shlex.quote(sys.executable)} -m mintscope"
READY_S = 60
STEPS = [
    ("sign up", r"201 application 1 of a@example\.org, secret svc_app_\w{4}\.\.\."),
    ("exchange, not approved", "401 NOT_APPROVED: .*"),
    ("exchange, too fast", "429 RATE_LIMITED, retryAfter 1: .*"),
    ("confirm the mailbox", "200 .*"),
    ("status", "200 awaiting_approval"),
    ("an administrator", "applications approve 1 --unconfirmed"),
    ("exchange", r"200 a-[0-9a-f]{8} has \.\.\.[0-9a-f]{8}: \['trade:read', .*\]"),
    ("GET /v1/me", r"200 \{'userId': 1, 'username': 'a-[0-9a-f]{8}', 'keyId': 1, .*\}"),
    ("exchange again", "409 KEY_ALREADY_EXISTS: .*"),
    ("sign up again", "409 DUPLICATE_APPLICATION: .*"),
    ("an administrator", "mintscope users remove 1"),
    ("exchange, account removed", "404 ACCOUNT_NOT_FOUND: .*"),
    ("GET /v1/me, account removed", "401 INVALID_TOKEN: .*"),
]


def test_every_step_is_answered_as_the_specification_says(tmp_path: Path) -> None:
    environment = settings(tmp_path, MINTSCOPE_ACCOUNTS__EXCHANGE_LIMIT_WINDOW_S="1")
    with api_process(environment, tmp_path / "log") as origin:
        ran = subprocess.run(
            [
                *(sys.executable, "-m", EXAMPLE, origin, "--email", "a@example.org"),
                *("--poll-s", "1.1"),
                *("--approve-with", f"{MINTSCOPE} applications approve {{id}} --unconfirmed"),
                *("--remove-with", f"{MINTSCOPE} users remove {{user}}"),
            ],
            env=environment,
            capture_output=True,
            text=True,
            timeout=READY_S,
            check=False,
        )

    assert ran.returncode == 0, ran.stderr
    reported = [re.split(r"\s{2,}", line.strip(), maxsplit=1) for line in ran.stdout.splitlines()]
    assert [what for what, _ in reported] == [what for what, _ in STEPS]
    for (what, outcome), (_, expected) in zip(reported, STEPS, strict=True):
        assert re.fullmatch(expected, outcome), f"{what}: {outcome}"
