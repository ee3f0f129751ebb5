"""The pepper is made once, and stored in a separate file."""

import stat
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256, sha512
from pathlib import Path

import pytest

from mintscope.app.stores.folder import keep_roots, load_pepper, load_roots
from mintscope.kit.credentials import Root
from mintscope.kit.errors import UnusablePepper

ROOT = Root(1, sha256(b"a root").digest())


def test_the_pepper_is_made_once_and_only_its_owner_may_read_it(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "pepper"
    pepper = load_pepper(path)

    assert len(pepper) == 32
    assert load_pepper(path) == pepper
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [file.name for file in path.parent.iterdir()] == ["pepper"]


def test_two_new_peppers_differ(tmp_path: Path) -> None:
    assert load_pepper(tmp_path / "one") != load_pepper(tmp_path / "two")


@pytest.mark.parametrize("text", ["", "abc", "zz" * 32, "00" * 31])
def test_a_malformed_pepper_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "pepper").write_text(text)

    with pytest.raises(UnusablePepper, match="32 bytes"):
        load_pepper(tmp_path / "pepper")


def test_a_pepper_of_32_bytes_is_accepted_and_one_of_31_bytes_is_refused(tmp_path: Path) -> None:
    pepper = sha512(b"a pepper").digest()
    path = tmp_path / "pepper"
    path.touch(mode=0o600)
    for size in (32, 33):
        path.write_text(pepper[:size].hex())
        assert load_pepper(path) == pepper[:size]
    path.write_text(pepper[:31].hex())
    with pytest.raises(UnusablePepper, match=r"at least 32 bytes in hex at .*; there were 31"):
        load_pepper(path)


def test_concurrent_readers_of_a_new_pepper_get_the_same_one(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        peppers = list(pool.map(load_pepper, [tmp_path / "pepper"] * 8))

    assert len(set(peppers)) == 1


@pytest.mark.parametrize("name", ["pepper", "roots"])
def test_a_secret_that_others_may_read_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / name

    def read() -> object:
        return load_roots(path) if name == "roots" else load_pepper(path)

    if name == "roots":
        keep_roots(path, [ROOT])
    read()
    for mode in (0o640, 0o604, 0o620):
        path.chmod(mode)
        with pytest.raises(UnusablePepper, match=f"its mode is {mode:o}: chmod 600"):
            read()
    path.chmod(0o400)
    read()


def test_a_pepper_of_zeros_is_refused_unless_a_root_signs_instead(tmp_path: Path) -> None:
    path = tmp_path / "pepper"
    path.touch(mode=0o600)
    path.write_text("0" * 64)

    with pytest.raises(UnusablePepper, match="`mintscope secrets rotate`"):
        load_pepper(path)
    assert load_pepper(path, signs=False) == bytes(32)


def test_roots_are_stored_completely_and_only_their_owner_may_read_them(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "roots"
    assert load_roots(path) == ()
    keep_roots(path, [ROOT])
    later = Root(2, sha256(b"later").digest())
    keep_roots(path, [ROOT, later])

    assert load_roots(path) == [ROOT, later]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [file.name for file in path.parent.iterdir()] == ["roots"]
    path.write_text("1:abc")
    with pytest.raises(UnusablePepper, match="expected SECONDS:HEX"):
        load_roots(path)
