"""The programs of `/docs` and of the clients' READMEs run as shown: curl, both clients, and MCP.

They are read from the pages of a served website, and run against it.  An example cannot have a
value that a reader must get first, such as a signature, a code from an e-mail or the number of a
watchlist: an endpoint that needs such a value must answer with an error that its own page names.
"""

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Final

import httpx
import pytest

from mintscope.accounts.email_address import EmailAddress
from mintscope.accounts.keys.scope import Scope
from mintscope.app.config.config import ApiConfig
from mintscope.site.docs import GUIDES
from mintscope.site.reference import DescribedEndpoint, Reference
from support.fakes import reports
from support.scenes.mcp_service import mcp_beside, mcp_client
from support.scenes.payments.shopfront import shopfront
from support.scenes.service import bearer, credit_token
from support.scenes.website import HERE, PASSWORD, Website
from support.scenes.whole_report import whole_report

ROOT: Final = Path(__file__).resolve().parents[2]
NODE: Final = Path(sys.executable).parent / "node"
CLIENT: Final = ROOT / "packages" / "client-ts" / "src"
# Each README starts with a program for a credit token; its others need a wallet.
READMES: Final = {
    "python": ROOT / "packages" / "client" / "README.md",
    "ts": ROOT / "packages" / "client-ts" / "README.md",
}
PROGRAM: Final = re.compile(r'<code id="([\w-]+)" data-language="(\w+)">(.*?)</code>', re.DOTALL)
ENDING: Final = {"post-credits-rotate", "delete-me-key"}  # these make a credential void
GUIDE: Final = "guide of "
# These programs pay; other tests run them as programs of docs/clients.md and /skill.md.
PAYING: Final = {"pay", "official"}
# These are servers; tests/docs/test_alert_guide.py sends webhooks to them.
SERVING: Final = {"hook-python", "hook-ts"}
CREDITS: Final = 1_000
READER: Final = EmailAddress("reader@example.org")
UNLIMITED: Final = ApiConfig(rate_limit_requests=100_000, other_limit_requests=100_000)
# This service has no data for these endpoints, so their programs print nothing.
EMPTY: Final = {"get-credits-history", "get-screen", "get-token-swaps"}
SHELL: Final = r"""
export CURL_HOME="$PWD"
printf '%s\n' 'write-out = "\n%{http_code}"' 'max-time = 20' > .curlrc
"""
# A stream runs for as long as it is paid for, so only two lines of it are read.  It may end by
# itself once its pipe is closed.
FIRST_EVENT: Final = r"""
mkfifo events
%s > events &
head -2 < events | grep '^event: '
kill $! 2> kill.log || :
printf '\n200'
"""
# Runs each program in a namespace of its own; prints the output or the error of each program.
PYTHON: Final = """
import contextlib, io, json, sys, traceback
printed_by = {}
for name, text in json.load(open("programs.json")).items():
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            exec(compile(text, name, "exec"), {"__name__": "__main__"})
    except BaseException:
        printed.write("failed: " + traceback.format_exc())
    printed_by[name] = printed.getvalue()
print(json.dumps(printed_by))
"""
TYPESCRIPT: Final = """
import { readFileSync } from "node:fs";
const printed_by = {};
const write = console.log;
for (const name of Object.keys(JSON.parse(readFileSync("programs.json", "utf8")))) {
  const lines = [];
  const shown = (word) => (typeof word === "string" ? word : JSON.stringify(word) ?? "undefined");
  console.log = (...words) => lines.push(words.map(shown).join(" "));
  try {
    await import(`./${name}.ts`);
  } catch (trouble) {
    lines.push(`failed: ${trouble.stack}`);
  }
  printed_by[name] = lines.join("\\n");
}
write(JSON.stringify(printed_by));
process.exit(0);
"""

pytestmark = pytest.mark.process


@dataclass
class Documented:
    """The docs pages, their programs, and the reader's credit token and API key with all scopes.

    programs    by endpoint and language
    """

    site: Website
    reference: Reference
    programs: Mapping[str, Mapping[str, str]]
    environment: Mapping[str, str]
    folder: Path

    def written_in(self, language: str) -> dict[str, str]:
        """Return the programs in *language*, by page; programs that end a credential come last."""
        in_order = sorted(self.programs.items(), key=lambda each: each[0] in ENDING)
        return {slug: texts[language] for slug, texts in in_order if language in texts}

    @property
    def need_more(self) -> set[str]:
        """The endpoints whose callers must get something first: a body, an ID or a payment."""
        return {"post-credits-purchase"} | {
            slug
            for slug, each in self.reference.endpoints.items()
            if each.needs_body or named(each.path)
        }

    async def run(self, *words: str) -> str:
        """Run the command *words* in the folder of the programs; return its output."""
        running = await asyncio.create_subprocess_exec(
            *words,
            cwd=self.folder,
            env={"PATH": os.defpath, **self.environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        output, trouble = await asyncio.wait_for(running.communicate(), 100)
        assert running.returncode == 0, (output + trouble).decode()
        return output.decode()

    def expect_reported(self, slug: str, status: int, body: str) -> bool:
        """Return whether *status* is a success; fail if the docs page *slug* does not list it."""
        if slug.startswith(GUIDE):
            return status in {200, 201, 402}
        endpoint: DescribedEndpoint = self.reference.endpoints[slug]
        if status == endpoint.status:
            return True
        assert status in {each.status for each in endpoint.refusals} - {405, 500}, (slug, body)
        return False


@pytest.fixture
async def documented(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Documented]:
    monkeypatch.setattr(reports, "REPORT", whole_report())
    folder = tmp_path / "programs"
    folder.mkdir()
    async with (
        shopfront(tmp_path / "site", api=UNLIMITED) as shop,
        httpx.AsyncClient(base_url=shop.site.origin, headers={"accept": "text/html"}) as http,
    ):
        site = shop.site
        reference = Reference((await http.get("/openapi.json")).json())
        pages = {
            slug: (await http.get(each.address)).text for slug, each in reference.endpoints.items()
        }
        programs = {
            slug: {
                language: text
                for name, language, text in programs_in(page)
                if name.startswith("program-")
            }
            for slug, page in pages.items()
        }
        for guide in GUIDES:
            page = (await http.get(f"/docs/guides/{guide.slug}")).text
            for name, language, text in programs_in(page):
                if name not in PAYING | SERVING and not name.startswith("program-"):
                    programs[f"{GUIDE}{guide.slug}, {name}"] = {language: text}
        environment = await environment_of(site, http)
        programs[f"{GUIDE}packages, README"] = {
            language: _first_program(path, language)
            .replace("https://api.example", site.origin)
            .replace("svc_credit_...", environment["MINTSCOPE_CREDENTIAL"])
            for language, path in READMES.items()
        }
        yield Documented(site, reference, programs, environment, folder)


def _first_program(readme: Path, language: str) -> str:
    return readme.read_text().partition(f"```{language}\n")[2].partition("```")[0]


def programs_in(page: str) -> Iterator[tuple[str, str, str]]:
    """Yield name, language and text of each program of a page."""
    for name, language, text in PROGRAM.findall(page):
        yield name, language, unescape(re.sub(r"<[^>]*>", "", text))


async def environment_of(site: Website, http: httpx.AsyncClient) -> dict[str, str]:
    """Return the reader's environment: a credit token, and an API key whose account has credits."""
    people, keys = site.accounts.people, site.accounts.keys
    session = await people.session(await people.sign_up(READER, PASSWORD, HERE))
    assert session is not None
    issued = await keys.create(session, name="Programs", scopes=frozenset(Scope), lifetime_ms=None)
    for number in (1, 2):
        await site.ledger.issue(credit_token(number), CREDITS, "")
    answer = await http.post(
        "/v1/account/credits/deposit",
        json={"creditToken": credit_token(2)},
        headers=bearer(issued.api_key),
    )
    assert answer.is_success, answer.text
    return {"MINTSCOPE_CREDENTIAL": credit_token(1), "MINTSCOPE_API_KEY": issued.api_key}


@pytest.mark.skipif(shutil.which("curl") is None, reason="did not run: there is no curl here")
async def test_every_curl_command_is_answered_as_its_page_describes(documented: Documented) -> None:
    written = documented.written_in("sh")
    lines = {slug: text for slug, text in written.items() if text.startswith("curl ")}
    lines["get-stream"] = FIRST_EVENT % lines["get-stream"]
    refused = set()
    for slug, line in lines.items():
        printed = await documented.run("/bin/sh", "-euc", SHELL + line)
        body, _, status = printed.strip().rpartition("\n")
        if not documented.expect_reported(slug, int(status), body):
            refused.add(slug)

    assert refused <= documented.need_more
    of_endpoints = [slug for slug in lines if not slug.startswith(GUIDE)]
    assert len(of_endpoints) == len(documented.reference.endpoints)


async def test_every_program_in_python_runs(documented: Documented) -> None:
    programs = documented.written_in("python")
    (documented.folder / "programs.json").write_text(json.dumps(programs))

    printed_by = json.loads(await documented.run(sys.executable, "-c", PYTHON))

    expect_answers(documented, printed_by)


async def test_every_program_in_typescript_runs(documented: Documented) -> None:
    programs = documented.written_in("ts")
    (documented.folder / "programs.json").write_text(json.dumps(programs))
    (documented.folder / "package.json").write_text('{"type": "module"}')
    package = documented.folder / "node_modules" / "mintscope-client"
    package.mkdir(parents=True)
    (package / "package.json").write_text('{"type": "module", "exports": "./src/index.ts"}')
    (package / "src").symlink_to(CLIENT)
    assert f"{GUIDE}clients, ts-client" in programs
    for slug, text in programs.items():
        (documented.folder / f"{slug}.ts").write_text(text)
    (documented.folder / "run.mjs").write_text(TYPESCRIPT)

    printed_by = json.loads(await documented.run(str(NODE), "run.mjs"))

    expect_answers(documented, printed_by)


def named(path: str) -> set[str]:
    """Return the names of the variables in *path*, except `tokenAddress`."""
    return set(re.findall(r"{(\w+)}", path)) - {"tokenAddress"}


def expect_answers(documented: Documented, printed_by: Mapping[str, str]) -> None:
    """Check that each program printed a result, and neither an error nor `undefined`.

    A program of an endpoint in `need_more` may print a refusal; one in EMPTY may print nothing.
    """
    assert [text for text in printed_by.values() if "failed: " in text or "undefined" in text] == []
    for slug, text in printed_by.items():
        status = re.match(r"([2-5]\d\d) ", text)
        if status is None:
            assert text.strip() or slug in EMPTY, slug
        elif not documented.expect_reported(slug, int(status[1]), text):
            assert slug in documented.need_more, (slug, text)


async def test_every_tool_call_succeeds_with_a_credit_token_except_two(
    documented: Documented,
) -> None:
    calls = {
        slug: json.loads(text)
        for slug, text in documented.written_in("json").items()
        if not slug.startswith(GUIDE)
    }
    header = bearer(documented.environment["MINTSCOPE_CREDENTIAL"])
    site = documented.site
    async with mcp_beside(site.api, site.clock) as app, mcp_client(app, header) as client:
        printed_by = {
            slug: await client.call_tool(call["name"], call["arguments"])
            for slug, call in calls.items()
        }

    assert {slug for slug, answer in printed_by.items() if answer.is_error} == {
        "post-credits-purchase",
        "post-signals",  # needs an account, not a credit token
    }
    assert len(printed_by) == 13


async def test_programs_that_pay_equal_the_programs_that_other_tests_run(
    documented: Documented,
) -> None:
    """The lines are equal, except for the seller's data and for printing the credit token."""
    async with httpx.AsyncClient(base_url=documented.site.origin) as http:
        pages = [
            (await http.get(f"/docs/guides/{slug}", headers={"accept": "text/html"})).text
            for slug in ("buying", "clients", "x402")
        ]
        llms = (await http.get("/skill.md")).text.replace(
            "https://shop.example", str(http.base_url)
        )
    shown = {name: text for page in pages for name, _, text in programs_in(page)}
    clients = (ROOT / "docs" / "clients.md").read_text()

    assert left_over(shown["pay"], clients) == {
        "from mintscope_client import Client",
        'asset="MINT_OF_THE_PAYMENT_TOKEN",',
        'pay_to="WALLET_OF_THE_SELLER",',
        f'with Client("{documented.site.origin}", payer=payer) as client:',
        "print(client.buy_credits(10).token)",
    } - set(map(str.strip, clients.splitlines()))
    assert left_over(f"{shown['pip']}\n{shown['npm']}", llms) == set()
    assert {line for line in left_over(shown["official"], llms) if "base_url" not in line} == set()


def left_over(program: str, text: str) -> set[str]:
    """Return the lines of *program* that are not in *text*."""
    there = {line.strip() for line in text.splitlines()}
    return {line.strip() for line in program.splitlines()} - there
