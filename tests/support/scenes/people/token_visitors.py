"""A service whose tokens have pages, and strangers who look at them."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mintscope.app.config.config import WebConfig
from support.scenes.people.web_person import ORIGIN, Person
from support.scenes.website import Website, website


@pytest.fixture
async def shown_site(tmp_path: Path) -> AsyncIterator[Website]:
    """A service where an address sees one token a day for nothing, beside SOL."""
    web = WebConfig(free_views_per_day=1)
    async with website(tmp_path, origin=ORIGIN, web=web, has_token_market=True) as site:
        yield site


@pytest.fixture
async def stranger(shown_site: Website) -> AsyncIterator[Person]:
    async with Person(shown_site) as person:
        yield person
