"""What the tests of the specification may ask for."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from service import Service, running_service


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    """The API with its real limits."""
    async with running_service(tmp_path) as service:
        yield service
