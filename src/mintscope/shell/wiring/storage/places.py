"""Where an installation is kept: `sqlite:FOLDER` or `postgresql://...`."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from mintscope.base.errors import UnusableStore
from mintscope.edges.storage import folder
from mintscope.edges.storage.copying.backup import copy_files, copy_secrets
from mintscope.edges.storage.copying.copier import Progress, Sum, copy
from mintscope.edges.storage.copying.sqlite_side import SqliteSide
from mintscope.edges.storage.copying.table import CannotCopy, Target
from mintscope.edges.storage.database import DatabaseError
from mintscope.edges.storage.sqlite.compacting import compact_files
from mintscope.shell.config.config import Config
from mintscope.shell.wiring.storage.extras import extra

__all__ = ["Progress", "back_up", "compact", "copy_installation", "named", "place_of", "restore"]

SQLITE: Final = "sqlite:"
ROLES: Final = ("serve", "ingest", "api")


def place_of(config: Config) -> str:
    """Return where the installation of *config* is kept."""
    if config.store is not None:
        return config.store.get_secret_value()
    return f"{SQLITE}{config.data_dir}"


def named(place: str) -> str:
    """Return *place* without its password."""
    if place.startswith(SQLITE):
        return place
    parts = urlsplit(place)
    return f"{parts.scheme}://{parts.hostname}:{parts.port or 5432}{parts.path}"


def has_password(place: str) -> bool:
    """Return whether *place* holds a password."""
    return not place.startswith(SQLITE) and urlsplit(place).password is not None


def copy_installation(source: str, target: str, progress: Progress) -> dict[str, Sum]:
    """Copy everything of the place *source*, while nothing runs on it, to *target*.

    Raises CannotCopy, UnusableStore
    """
    with expecting_no_service(source), expecting_no_service(target), ExitStack() as stack:
        read = stack.enter_context(_opened(source, is_new=False))
        written = stack.enter_context(_opened(target, is_new=True))
        return copy(read, written, named(source), progress)


def back_up(config: Config, target: Path, progress: Progress, *, has_secrets: bool = True) -> None:
    """Copy the installation, which may run, into the new folder *target*.

    has_secrets   pepper and roots are copied, too
    """
    if config.store is None:
        copy_files(config.data_dir, target, progress, has_secrets=has_secrets)
        return
    with ExitStack() as stack:
        read = stack.enter_context(_opened(place_of(config), is_new=False))
        written = stack.enter_context(_opened(f"{SQLITE}{target}", is_new=True))
        copy(read, written, named(place_of(config)), progress)
    if has_secrets:
        copy_secrets(config.data_dir, target)


def restore(
    config: Config, source: Path, progress: Progress, *, secrets: Path | None = None
) -> None:
    """Copy the folder *source* into the installation, which must be empty, while nothing runs.

    secrets   the folder of pepper and roots, if they are kept apart
    """
    if config.store is None:
        with expecting_no_service(f"{SQLITE}{config.data_dir}"):
            copy_files(source, config.data_dir, progress)
    else:
        copy_installation(f"{SQLITE}{source}", place_of(config), progress)
    for each in (source, secrets):
        if each is not None and config.credits.pepper is None:
            copy_secrets(each, config.data_dir)


def compact(config: Config) -> Sequence[tuple[str, int, int]]:
    """Compact the files of the installation, while nothing runs; return names and bytes.

    Raises UnusableStore
    """
    if config.store is not None:
        raise UnusableStore("expected files of SQLite; the store is a PostgreSQL, which vacuums")
    with expecting_no_service(place_of(config)):
        return compact_files(config.data_dir)


@contextmanager
def expecting_no_service(place: str) -> Iterator[None]:
    """Let no process serve or ingest *place* during the block.  Raises CannotCopy, FolderInUse."""
    with ExitStack() as stack:
        if place.startswith(SQLITE):
            for role in ROLES:
                held = folder.held(_folder(place), role, may_be_open=True)
                stack.enter_context(held)
        else:
            with extra("postgres", "psycopg", "store"):
                from mintscope.edges.storage.postgres.processes.services import (  # noqa: PLC0415 - extra
                    expecting_no_process,
                )
            stack.enter_context(expecting_no_process(place))
        yield


@contextmanager
def _opened(place: str, *, is_new: bool) -> Iterator[Target]:
    side: Target
    if place.startswith(SQLITE):
        side = SqliteSide(_folder(place), is_new=is_new)
    elif place.startswith(("postgresql://", "postgres://")):
        with extra("postgres", "psycopg", "store"):
            from mintscope.edges.storage.copying.postgres_side import (  # noqa: PLC0415 - extra
                PostgresSide,
            )
        side = PostgresSide(place, is_new=is_new)
    else:
        raise CannotCopy(f"expected sqlite:FOLDER or postgresql://...; was {place!r}")
    try:
        yield side
    except DatabaseError as cause:
        raise UnusableStore(f"{named(place)}: {cause}") from cause
    finally:
        side.close()


def _folder(place: str) -> Path:
    return Path(place.removeprefix(SQLITE).removeprefix("//")).expanduser()
