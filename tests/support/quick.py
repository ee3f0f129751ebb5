"""A pytest plugin for `make quick`: the option `--quick` leaves out slow tests."""

from pathlib import Path
from typing import Final

import pytest

from support.engines import engine_counts
from support.order import LONG_S, SLOW

TESTS: Final = Path(__file__).resolve().parents[1]
FOLDERS_LEFT_OUT: Final = {"e2e", "browser"}
MARKS_LEFT_OUT: Final = ("process", "browser", "storm")
ENGINE_LEFT_OUT: Final = "postgresql"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="leave out what takes long")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With `--quick`, skip slow files without importing them."""
    if not config.getoption("quick") or not collection_path.is_relative_to(TESTS):
        return None
    path = collection_path.relative_to(TESTS).as_posix()
    return path in FOLDERS_LEFT_OUT or path in SLOW or path in LONG_S or None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("quick"):
        left_out = {item for item in items if _is_left_out(item)}
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=[*left_out])


def _is_left_out(item: pytest.Item) -> bool:
    if any(map(item.get_closest_marker, MARKS_LEFT_OUT)):
        return True
    return ENGINE_LEFT_OUT in engine_counts([item.nodeid])
