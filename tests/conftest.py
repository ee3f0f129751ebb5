"""What every test may ask for."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from service import Service, running_service

pytest_plugins = ["browsing", "devchain_history", "payment_desks", "shopfront", "web_person"]

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
