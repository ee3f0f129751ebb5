"""The pepper is made once and kept apart."""

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mintscope.base.errors import UnusablePepper
from mintscope.edges.storage.folder import load_pepper


def test_it_is_made_once_and_only_its_owner_may_read_it(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "pepper"
    pepper = load_pepper(path)

    assert len(pepper) == 32
    assert load_pepper(path) == pepper
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [file.name for file in path.parent.iterdir()] == ["pepper"]


def test_two_are_never_the_same(tmp_path: Path) -> None:
    assert load_pepper(tmp_path / "one") != load_pepper(tmp_path / "two")


@pytest.mark.parametrize("text", ["", "abc", "zz" * 32, "00" * 31])
def test_anything_else_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "pepper").write_text(text)

    with pytest.raises(UnusablePepper, match="32 bytes"):
        load_pepper(tmp_path / "pepper")


def test_the_second_process_takes_the_pepper_that_is_there(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        peppers = list(pool.map(load_pepper, [tmp_path / "pepper"] * 8))

    assert len(set(peppers)) == 1
