"""docs/api.md names every endpoint and error code; the files that architecture.md names exist."""

import re
from pathlib import Path

import pytest

from mintscope.api.discovery.responses import REMEDIES
from mintscope.api.failures import REASONS, STATUS
from mintscope.kit.errors import ErrorCode
from mintscope.mcp.tools import TOOLS
from mintscope.payments.protocol.envelope import RefusalReason
from support.scenes.service import Service

ROOT = Path(__file__).resolve().parents[2]
API = (ROOT / "docs" / "api.md").read_text()
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()
OWN_PATHS = tuple(
    f"{each.name}/" for each in (ROOT / "src" / "mintscope").iterdir() if each.is_dir()
)


async def test_every_endpoint_is_named_and_no_other(service: Service) -> None:
    paths = (await service.client.get("/openapi.json")).json()["paths"]
    served = {f"{method.upper()} {path}" for path, ways in paths.items() for method in ways}

    named = set(re.findall(r"^\| `((?:GET|POST|PUT|PATCH|DELETE) /[^`]*)` \|", API, re.MULTILINE))

    assert served - named == set()
    assert {row for row in named - served if not row.split()[1].startswith("/api/")} == {
        "GET /openapi.json",
        *({"GET /v1/me"} - served),
    }


@pytest.mark.parametrize("code", list(ErrorCode))
def test_every_error_code_has_a_status_a_meaning_and_a_remedy(code: ErrorCode) -> None:
    (row,) = re.findall(rf"^\| `{code}` \| (\d+) \| (.+) \| (.+) \|$", API, re.MULTILINE)

    status, means, do = row
    assert int(status) == STATUS[code]
    assert means.strip()
    assert f"{do[0].upper()}{do[1:]}." == REMEDIES[code]


@pytest.mark.parametrize("reason", list(RefusalReason))
def test_every_reason_to_refuse_a_payment_is_listed_with_its_text(reason: RefusalReason) -> None:
    page = (ROOT / "docs" / "api" / "payments.md").read_text()

    assert f"\n| `{reason}` | {REASONS[reason]} |\n" in page


def test_every_file_of_the_architecture_exists() -> None:
    quoted = re.findall(r"`([a-z_]+(?:/[a-z_0-9]+)+(?:\.py)?)`", ARCHITECTURE)
    named = [name for name in quoted if name.startswith(OWN_PATHS)]

    assert len(named) > 40
    assert [name for name in named if not (ROOT / "src" / "mintscope" / name).exists()] == []


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("the 402 answer", "PAYMENT_REQUIRED"),
        ("its seed", "the mean of its first inputs"),
        ("debits a credit", "-min(a.balance"),
        ("a new DEX program", "pumpswap"),
        ("the e-mail about a new API key", "a new api key was created"),
    ],
)
def test_the_architecture_names_the_right_file_for_a_subject(what: str, text: str) -> None:
    (row,) = re.findall(rf"^\|[^|]*{what}[^|]*\| `([^`]+)`", ARCHITECTURE, re.MULTILINE)

    assert text.lower() in (ROOT / "src" / "mintscope" / row).read_text().lower()


def test_every_tool_of_mcp_is_named_and_no_other() -> None:
    page = (ROOT / "docs" / "mcp.md").read_text()

    assert re.findall(r"^\| `([a-z_]+)` \|", page, re.MULTILINE) == [tool.name for tool in TOOLS]
