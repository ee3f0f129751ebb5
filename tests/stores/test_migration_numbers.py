"""Each migration has its own number: if two had the same number, no new store could be made."""

from collections import Counter
from pathlib import Path

import pytest

import mintscope.kit.sql

FOLDERS = sorted(
    folder
    for folder in Path(mintscope.kit.sql.__path__[0]).glob("migrations/*/*")
    if any(folder.glob("*.sql"))
)


def twice(names: list[str]) -> list[str]:
    """Return the numbers with which more than one of *names* begins."""
    counted = Counter(name.partition("_")[0] for name in names)
    return sorted(number for number, count in counted.items() if count > 1)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: "-".join(folder.parts[-3:]))
def test_no_two_migrations_of_a_folder_have_the_same_number(folder: Path) -> None:
    assert twice([path.name for path in folder.glob("*.sql")]) == []


def test_all_folders_are_checked_and_a_duplicate_number_is_found() -> None:
    assert len(FOLDERS) >= 4
    assert twice(["0010_a.sql", "0010_b.sql", "0020_c.sql"]) == ["0010"]
