"""What every test may ask for."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.scenes.service import Service, running_service

pytest_plugins = [
    "support.scenes.devchain_history",
    "support.scenes.payments.payment_desks",
    "support.scenes.payments.shopfront",
    "support.scenes.people.browsing",
    "support.scenes.people.web_person",
]

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Return the folder of real chain and market data, or skip and say so."""
    if not SHARED_DATA.is_dir():
        pytest.skip("did not run: the folder of real data is not beside the project")
    return SHARED_DATA


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    """The API over a real ledger, with its real limits."""
    async with running_service(tmp_path) as service:
        yield service
