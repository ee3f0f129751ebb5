"""The documentation has a page for every endpoint, with the whole description of the endpoint."""

import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from mintscope.api.discovery.guide import DOCS as INDEXED
from mintscope.site.definitions import DEFINITIONS
from mintscope.site.docs import GUIDES, releases
from mintscope.site.reference import Reference
from support.scenes.people.web_person import Person, words
from support.scenes.website import Website, website

ROOT = Path(__file__).resolve().parents[2]
PAGE_BYTES_MAX = 60_000
FIXED = ["/docs", "/docs/indicators", "/docs/errors", "/docs/changelog"]


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Website]:
    async with website(tmp_path) as site:
        yield site


@pytest.fixture
async def person(site: Website) -> AsyncIterator[Person]:
    """Yield a reader of the documentation."""
    async with Person(site) as person:
        yield person


@pytest.fixture
async def document(person: Person) -> dict[str, Any]:
    return dict((await person.open("/openapi.json")).json())


def addresses(document: dict[str, Any]) -> list[str]:
    endpoints = [each.address for each in Reference(document).endpoints.values()]
    return [*FIXED, *endpoints, *(f"/docs/guides/{each.slug}" for each in GUIDES)]


async def test_every_endpoint_has_a_page_with_its_whole_description(
    person: Person, document: dict[str, Any]
) -> None:
    reference = Reference(document)
    ways = {
        (method.upper(), path) for path in document["paths"] for method in document["paths"][path]
    }
    index = words(await person.open("/docs"))

    assert {(each.method, each.path) for each in reference.endpoints.values()} == ways
    for endpoint in reference.endpoints.values():
        operation = document["paths"][endpoint.path][endpoint.method.lower()]
        shown = words(await person.open(endpoint.address))
        reported = [operation["description"], operation["x-cost"], endpoint.path]
        for parameter in operation.get("parameters", ()):
            reported += [parameter["name"], parameter["description"]]
        for each in operation["responses"].values():
            reported += list(each["headers"])
            reported += list(
                each.get("content", {}).get("application/json", {}).get("examples", ())
            )
        assert [text for text in reported if plain(text) not in shown] == [], endpoint.path
        assert endpoint.path in index


async def test_an_answer_that_is_not_json_is_shown_as_it_is_sent(
    person: Person, document: dict[str, Any]
) -> None:
    begins = {"text/event-stream": "event: minute data: {", "image/svg+xml": "&lt;svg xmlns="}
    pages = {
        each.media_type: await person.open(each.address)
        for each in Reference(document).endpoints.values()
        if each.media_type != "application/json"
    }

    assert pages.keys() == begins.keys()
    for media_type, page in pages.items():
        assert begins[media_type] in " ".join(page.text.split())


async def test_every_field_is_on_its_page_with_its_description(
    person: Person, document: dict[str, Any]
) -> None:
    schemas = document["components"]["schemas"]
    for endpoint in Reference(document).endpoints.values():
        operation = document["paths"][endpoint.path][endpoint.method.lower()]
        shown = words(await person.open(endpoint.address))
        fields = {
            (name, plain(field.get("description", "")))
            for body in bodies(operation)
            for name, field in fields_in(body, schemas, set())
            if name not in {"success", "meta", "data"}
        }
        assert [each for each in fields if each[0] not in shown or each[1] not in shown] == []


def bodies(operation: dict[str, Any]) -> Iterator[dict[str, Any]]:
    request = operation.get("requestBody", {"content": {}})
    success = next(iter(operation["responses"].values()))
    for content in (*request["content"].values(), *success["content"].values()):
        schema = content["schema"]
        yield schema.get("properties", {}).get("data", schema)


def fields_in(
    schema: dict[str, Any], schemas: dict[str, Any], seen: set[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name and schema of every field of *schema* and of the schemas that it contains."""
    name = schema.get("$ref", "").rpartition("/")[2]
    if name in seen:
        return
    if name:
        seen.add(name)
        yield from fields_in(schemas[name], schemas, seen)
    for field, shape in schema.get("properties", {}).items():
        yield field, shape
        yield from fields_in(shape, schemas, seen)
    for part in [*schema.get("anyOf", ()), *([schema["items"]] if "items" in schema else ())]:
        yield from fields_in(part, schemas, seen)


async def test_every_link_has_a_target_and_every_page_is_small(
    person: Person, document: dict[str, Any]
) -> None:
    asked: dict[str, str] = {}
    for address in addresses(document):
        page = await person.open(address)
        assert page.status_code == 200, address
        assert len(page.content) < PAGE_BYTES_MAX, address
        asked[address] = page.text
    links = {
        unescape(link)
        for text in asked.values()
        for link in re.findall(r'href="(/docs[^"]*)"', text)
    }
    pages = {link.partition("#")[0].removesuffix(".md") for link in links}
    missing = sorted(pages - set(asked))
    no_place = [
        link
        for link in links
        if "#" in link and f'id="{link.partition("#")[2]}"' not in asked[link.partition("#")[0]]
    ]

    assert (missing, no_place) == ([], [])


async def test_the_ids_of_a_page_differ_so_that_each_copy_button_copies_its_own_program(
    person: Person, document: dict[str, Any]
) -> None:
    for address in addresses(document):
        counts = Counter(re.findall(r' id="([^"]+)"', (await person.open(address)).text))
        assert [name for name, count in counts.items() if count > 1] == [], address


async def test_the_page_of_errors_has_every_error_with_its_description(
    person: Person, document: dict[str, Any]
) -> None:
    shown = words(await person.open("/docs/errors"))
    for name, example in document["components"]["examples"].items():
        assert name.partition(".")[2] in shown
        assert plain(example["description"]) in shown


async def test_the_search_index_leads_to_existing_pages(
    person: Person, document: dict[str, Any]
) -> None:
    found = json.loads((await person.open("/docs/words.json")).text)

    assert set(found) <= set(addresses(document))
    assert "swingHigh" in found["/docs/api/get-token"]
    assert "macd.line" in found["/docs/indicators"]


@pytest.mark.parametrize("path", ["/docs/api/nothing", "/docs/guides/nothing", "/docs/nothing"])
async def test_an_unknown_address_is_a_404(person: Person, path: str) -> None:
    assert (await person.open(path)).status_code == 404


async def test_the_changelog_page_has_every_change_for_customers(person: Person) -> None:
    parts = re.split(r"^##+ ", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    of_operators = [part for part in parts if part.startswith("For operators")]
    of_customers = "".join(part for part in parts if part not in of_operators)
    changes = [
        line.split("`")[0].strip() for line in re.findall(r"^- (.+)$", of_customers, re.MULTILINE)
    ]
    shown = words(await person.open("/docs/changelog"))

    assert of_operators
    assert "For operators" not in shown
    assert len(changes) == sum(len(g.changes) for r in releases() for g in r.groups)
    assert [each for each in changes if plain(each) not in shown] == []


def test_every_indicator_is_defined(document_fields: set[str]) -> None:
    defined = " ".join(field for each in DEFINITIONS for field in each.fields)
    assert [name for name in document_fields if name not in defined] == []


@pytest.fixture
async def document_fields(document: dict[str, Any]) -> set[str]:
    """Return the names of all response fields whose values are computed from candles."""
    schemas = document["components"]["schemas"]
    return {
        *schemas["TimeframeIndicators"]["properties"],
        *schemas["IndicatorPoint"]["properties"],
        *schemas["PriceChange"]["properties"],
        "buySellPressure",
    } - {"t", "isOpen"}


def plain(text: str) -> str:
    """Return *text* without backticks and with single spaces, like the text of a page."""
    return " ".join(text.replace("`", " ").split())


async def test_every_page_is_served_as_markdown_too(
    person: Person, document: dict[str, Any]
) -> None:
    linked: set[str] = set()
    for address in addresses(document):
        page = await person.open(address)
        text = await person.open(f"{address}.md")

        assert f'type="text/markdown" href="{address}.md"' in page.text
        assert text.headers["content-type"] == "text/markdown; charset=utf-8"
        assert text.text.count("\n# ") + text.text.startswith("# ") == 1, address
        assert text.text.count("```") % 2 == 0, address
        prose = re.sub(r"```.*?```|`[^`]*`", "", text.text, flags=re.DOTALL)
        assert not re.search(r"</?[a-z]+[ >]|&[a-z]+;|\{\{", prose), address
        for link in re.findall(r"\]\(([^)]*)\)", prose):
            assert link.startswith(("http", "#")), (address, link)
        linked |= set(re.findall(r"\]\(http://shop\.example(/docs[^)#]*)", prose))
    assert linked <= {f"{address}.md" for address in addresses(document)}


async def test_the_markdown_of_an_endpoint_has_its_cost_parameters_and_headers(
    person: Person, document: dict[str, Any]
) -> None:
    for endpoint in Reference(document).endpoints.values():
        operation = document["paths"][endpoint.path][endpoint.method.lower()]
        text = " ".join((await person.open(f"{endpoint.address}.md")).text.split())

        assert f"`{endpoint.path}`" in text
        assert operation["x-cost"] in text
        for parameter in operation.get("parameters", ()):
            assert f"`{parameter['name']}`" in text
        for each in operation["responses"].values():
            for header in each["headers"]:
                assert f"`{header}`" in text


def test_the_index_for_agents_names_every_guide_by_its_title() -> None:
    named = dict(INDEXED)
    for guide in GUIDES:
        assert named.pop(f"/docs/guides/{guide.slug}") == guide.title
    assert set(named) == set(FIXED) - {"/docs"}
