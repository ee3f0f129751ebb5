"""The first page lists the offers of this installation, and no others."""

from pathlib import Path

import pytest

from support.scenes.people.web_person import Person, words
from support.scenes.website import website


@pytest.mark.parametrize("has_payments", [False, True])
async def test_payments_are_offered_only_if_the_service_takes_them(
    tmp_path: Path, *, has_payments: bool
) -> None:
    async with website(tmp_path, has_payments=has_payments) as site, Person(site) as person:
        page = await person.open("/")
    shown = words(page)
    assert "A response costs one credit" in shown
    for offer in ["x402", "A program that pays", "/v1/credits/bundles"]:
        assert (offer in shown) is has_payments


@pytest.mark.parametrize("path", ["/", "/sign-in", "/nothing"])
async def test_pages_describe_themselves_to_search_engines(tmp_path: Path, path: str) -> None:
    async with website(tmp_path) as site, Person(site) as person:
        assert '<meta name="description" content="Price, ' in (await person.open(path)).text
