"""A shop for every test that buys."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from payment_world import World, world_at
from shopfront import Shopfront, opened


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """A chain, and the folder of an installation."""
    async with world_at(tmp_path) as world:
        yield world


@pytest.fixture
async def shop(world: World) -> AsyncIterator[Shopfront]:
    """The API that sells there."""
    async with opened(world) as shop:
        yield shop
