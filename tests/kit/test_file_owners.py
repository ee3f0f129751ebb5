"""Errors name the owner of a file; files that root makes belong to the owner of the folder."""

import ctypes
import os
import pwd
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from mintscope.app.stores.copying import expect_money
from mintscope.app.stores.folder import PEPPER_FILE, held, load_pepper
from mintscope.kit.errors import StoreUnavailable, UnusablePepper, UnusableStore
from mintscope.kit.files import access_trouble, make_folder
from mintscope.kit.sql.sqlite import open_store

NOBODY: Final = pwd.getpwuid(65_534)  # it owns no files
IS_ROOT: Final = os.geteuid() == 0
of_root = pytest.mark.skipif(not IS_ROOT, reason="did not run: it becomes another user")


@contextmanager
def another_user() -> Iterator[None]:
    os.seteuid(NOBODY.pw_uid)
    try:
        yield
    finally:
        os.seteuid(0)


@contextmanager
def giving_nothing_away() -> Iterator[None]:
    """Remove root's right to change owners, as on a network share that maps root to a user."""
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # of this thread
    rights = (ctypes.c_uint32 * 6)()  # effective, permitted and inheritable, twice 32 of each
    assert libc.capget(header, rights) == 0
    before = rights[0]
    rights[0] &= ~1  # CAP_CHOWN
    assert libc.capset(header, rights) == 0
    try:
        yield
    finally:
        rights[0] = before
        assert libc.capset(header, rights) == 0


def test_own_and_missing_files_have_no_access_error(tmp_path: Path) -> None:
    assert access_trouble(tmp_path) is None
    assert access_trouble(tmp_path / "of" / "the future") is None


@of_root
def test_an_access_error_names_the_owner_and_the_user(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(mode=0o700)
    (tmp_path / "data" / "money.sqlite").touch(mode=0o600)
    with another_user():
        closed = access_trouble(tmp_path / "data" / "money.sqlite")
    assert closed is not None
    assert closed.endswith(
        f" belongs to root, and this process runs as {NOBODY.pw_name}: run it as root"
    )


@of_root
def test_a_store_of_another_owner_in_ones_own_folder_is_unavailable_with_its_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # only root may look into the folders above
    os.chown(tmp_path, NOBODY.pw_uid, NOBODY.pw_gid)
    file = Path("money.sqlite")
    file.touch(mode=0o600)
    remedy = f"this process runs as {NOBODY.pw_name}: chown {NOBODY.pw_uid} {file}"
    with another_user():
        with pytest.raises(StoreUnavailable, match=remedy):
            open_store(file, "money")
        with pytest.raises(UnusableStore, match=remedy):
            expect_money(Path())


@of_root
def test_a_pepper_of_another_owner_is_not_taken_for_a_damaged_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    os.chown(tmp_path, NOBODY.pw_uid, NOBODY.pw_gid)
    file = Path(PEPPER_FILE)
    load_pepper(file)
    os.chown(file, 0, 0)
    with another_user(), pytest.raises(UnusablePepper, match=f"chown {NOBODY.pw_uid} {file}"):
        load_pepper(file)


@of_root
def test_files_made_by_root_belong_to_the_owner_of_the_folder(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    os.chown(data, NOBODY.pw_uid, NOBODY.pw_gid)

    with held(data, "serve"):
        pass
    load_pepper(data / PEPPER_FILE)
    open_store(data / "money.sqlite", "money").close()
    make_folder(data / "backups" / "of today")

    made = [*data.rglob("*")]
    assert {each.name for each in made} >= {"serve.lock", "pepper", "money.sqlite", "of today"}
    assert {each.stat().st_uid for each in made} == {NOBODY.pw_uid}


@of_root
def test_a_link_gives_no_file_of_root_to_the_owner_of_the_folder(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    os.chown(data, NOBODY.pw_uid, NOBODY.pw_gid)
    of_the_machine = tmp_path / "cron"
    (data / "serve.lock").symlink_to(of_the_machine)

    with held(data, "serve"):
        assert of_the_machine.stat().st_uid == 0


@of_root
def test_a_share_that_keeps_the_owners_of_files_can_be_used(tmp_path: Path) -> None:
    share = tmp_path / "share"
    share.mkdir()
    os.chown(share, NOBODY.pw_uid, NOBODY.pw_gid)
    with giving_nothing_away(), held(share, "backup", may_be_open=True):
        make_folder(share / "of today")
    assert (share / "of today").stat().st_uid == 0
