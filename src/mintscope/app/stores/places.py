"""The places of installations, and copies from one place to another.

A place is `sqlite:FOLDER` or `postgresql://...`.
"""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import apsw

from mintscope.app.stores import folder
from mintscope.app.stores.copying import CannotCopy, Progress, SqliteSide, Sum, Target, copy
from mintscope.kit.errors import UnusableStore
from mintscope.kit.sql.database import DatabaseError

SQLITE: Final = "sqlite:"
ROLES: Final = ("serve", "ingest", "api")


@contextmanager
def extra(name: str, package: str, setting: str) -> Iterator[None]:
    """If an import in the block fails, raise an error that names the missing extra.

    name      name of the extra, and of the file in requirements, that installs the Python *package*
    setting   the setting that needs the package
    Raises    UnusableStore if the package is not installed
    """
    try:
        yield
    except ModuleNotFoundError as cause:
        raise UnusableStore(
            f"expected the Python package {package}, for the setting {setting}; it is not"
            f" installed: pip install --require-hashes -r requirements/{name}.txt, a file of"
            " mintscope's sources"
        ) from cause


def named(place: str) -> str:
    """Return *place* without user, password and parameters."""
    if place.startswith(SQLITE):
        return place
    parts = urlsplit(place)
    return f"{parts.scheme}://{parts.hostname}:{parts.port or 5432}{parts.path}"


def has_password(place: str) -> bool:
    """Return whether *place* contains a password after the name of the user."""
    return not place.startswith(SQLITE) and urlsplit(place).password is not None


def copy_installation(source: str, target: str, progress: Progress) -> dict[str, Sum]:
    """Copy all data of the place *source*, which must not be in use, to the place *target*.

    Raises CannotCopy, UnusableStore.
    """
    with expecting_no_service(source), expecting_no_service(target):
        return copy_running(source, target, progress)


def copy_running(source: str, target: str, progress: Progress) -> dict[str, Sum]:
    """Copy all data of the place *source*, which may be in use, to the place *target*.

    Raises CannotCopy, UnusableStore.
    """
    with ExitStack() as stack:
        read = stack.enter_context(_opened(source, is_new=False))
        written = stack.enter_context(_opened(target, is_new=True))
        return copy(read, written, named(source), progress)


@contextmanager
def expecting_no_service(place: str) -> Iterator[None]:
    """Prevent processes from using *place* during the block.  Raises CannotCopy, FolderInUse."""
    with ExitStack() as stack:
        if place.startswith(SQLITE):
            for role in ROLES:
                held = folder.held(_folder(place), role, may_be_open=True)
                stack.enter_context(held)
        else:
            with extra("postgres", "psycopg", "store"):
                from mintscope.app.stores.postgres_side import expecting_no_process  # noqa: PLC0415 - extra
            stack.enter_context(expecting_no_process(place))
        yield


@contextmanager
def _opened(place: str, *, is_new: bool) -> Iterator[Target]:
    try:
        with closing(_side(place, is_new=is_new)) as side:
            yield side
    except (DatabaseError, apsw.Error) as cause:
        raise UnusableStore(f"{named(place)}: {cause}") from cause


def _side(place: str, *, is_new: bool) -> Target:
    if place.startswith(SQLITE):
        return SqliteSide(_folder(place), is_new=is_new)
    if not place.startswith(("postgresql://", "postgres://")):
        raise CannotCopy(f"expected sqlite:FOLDER or postgresql://...; was {place!r}")
    with extra("postgres", "psycopg", "store"):
        from mintscope.app.stores.postgres_side import PostgresSide  # noqa: PLC0415 - extra
    return PostgresSide(place, is_new=is_new)


def _folder(place: str) -> Path:
    return Path(place.removeprefix(SQLITE).removeprefix("//")).expanduser()


def free_bytes(folder: Path) -> int:
    """Return the number of free bytes on the disk of *folder*, which may not exist yet."""
    existing = next(each for each in (folder, *folder.absolute().parents) if each.exists())
    return shutil.disk_usage(existing).free
