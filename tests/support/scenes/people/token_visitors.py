"""A service with token pages, and visitors without an account who view them."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mintscope.accounts.email_address import EmailAddress
from mintscope.app.config.config import WebConfig
from support.scenes.people.web_person import ORIGIN, Person
from support.scenes.service import credit_token
from support.scenes.website import Website, website


@pytest.fixture
async def shown_site(tmp_path: Path) -> AsyncIterator[Website]:
    """Yield a service where each IP address can view SOL and one other token a day for free."""
    web = WebConfig(free_views_per_day=1)
    async with website(tmp_path, origin=ORIGIN, web=web, has_token_market=True) as site:
        yield site


@pytest.fixture
async def stranger(shown_site: Website) -> AsyncIterator[Person]:
    async with Person(shown_site) as person:
        yield person


async def give_credits(site: Website, email: str, credit_count: int) -> None:
    """Move credits from a new credit token into the account with *email*."""
    token = credit_token(7)
    granted = await site.ledger.issue(token, credit_count, "")
    users = await site.accounts.review.users(limit=50)
    user = next(each for each in users if each.email == EmailAddress(email))
    await site.accounts.credits.deposit(user.user_id, granted, None, None)


async def balance(site: Website, email: str) -> int:
    """Return the credits of the account with *email*."""
    users = await site.accounts.review.users(limit=50)
    user = next(each for each in users if each.email == EmailAddress(email))
    return (await site.accounts.credits.summary(user.user_id)).balance
