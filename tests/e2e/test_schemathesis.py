"""Schemathesis calls every operation as /openapi.json says, and worse, and compares the answers.

Left out are what is no flaw here: it takes a well-formed text for an address or a cursor that must
be good, expects 401 before a rate limit, and 401 where a payment is asked for.
"""

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from mintscope.shell.config.sections import ApiConfig
from support.fakes import reports
from support.processes.listening import listening
from support.scenes.payments.payment_world import World
from support.scenes.payments.selling_api import opened
from support.scenes.whole_report import whole_report

FULL: Final = os.environ.get("STORM") == "full"  # noqa: TID251 - only how long it goes on
TOOL: Final = Path(sys.executable).parent / "schemathesis"
NO_FLAW: Final = "positive_data_acceptance,missing_required_header,ignored_auth"
# 402 refuses, too: what is wrong with a payment's headers is told to those who send one.
REFUSALS: Final = """
[checks.negative_data_rejection]
expected-statuses = [400, 401, 402, 403, 404, 405, 406, 409, 413, 415, 422, 428, 429, "5xx"]
"""
# The scene has no list of tokens and nothing that streams: both answer 503, as they say they may.
NOT_THERE: Final = "^/v1/(tokens|stream)$"
LENGTH: Final = (
    ["--max-examples", "50", "--phases", "examples,coverage,fuzzing"]
    if FULL
    else ["--max-examples", "2", "--phases", "examples,fuzzing", "--seed", "1"]
)
RAISED: Final = ApiConfig(
    rate_limit_requests=1_000_000,
    other_limit_requests=1_000_000,
    health_limit_requests=1_000_000,
)


@pytest.mark.storm
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("has_credits", [False, True], ids=["anonymous", "with credits"])
async def test_no_answer_is_another_than_was_described(
    world: World, monkeypatch: pytest.MonkeyPatch, *, has_credits: bool, tmp_path: Path
) -> None:
    monkeypatch.setattr(reports, "REPORT", whole_report())
    async with opened(world, api=RAISED) as shop, listening(shop.service.app) as url:
        token = await shop.service.issue(1_000_000)
        shown = ["--header", f"Authorization: Bearer {token}"] if has_credits else []
        (tmp_path / "schemathesis.toml").write_text(REFUSALS)
        running = await asyncio.create_subprocess_exec(
            str(TOOL),
            "run",
            f"{url}/openapi.json",
            *("--url", url),
            *("--checks", "all", "--exclude-checks", NO_FLAW),
            *("--exclude-path-regex", NOT_THERE),
            *("--generation-database", "none", "--no-color"),
            *LENGTH,
            *shown,
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        told, _ = await asyncio.wait_for(running.communicate(), 1_100)

    assert running.returncode == 0, told.decode()
