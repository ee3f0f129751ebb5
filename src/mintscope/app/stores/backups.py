"""Backups in rotation: each backup is complete or absent, and the oldest ones are removed."""

import asyncio
import re
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from mintscope import __version__
from mintscope.app.config.groups import Config
from mintscope.app.engine import engine_of
from mintscope.app.stores import folder
from mintscope.app.stores.copying import CannotCopy, Progress, copy_files, copy_secrets
from mintscope.app.stores.stores import back_up, open_market, open_money, opened
from mintscope.app.stores.upgrade import has_records
from mintscope.credits.invariants import Invariant, Violation
from mintscope.kit.clock import Clock
from mintscope.kit.errors import StoreUnavailable, UnusablePepper, UnusableStore
from mintscope.kit.metrics import BACKUP_AGE_S
from mintscope.kit.primitives import UnixMs
from mintscope.kit.sql import identity as provenance
from mintscope.kit.sql.database import DatabaseError
from mintscope.kit.sql.identity import TakenBackup
from mintscope.payments.audit import AuditBooks

NAME: Final = re.compile(r"mintscope-(\d{8}T\d{6}Z)")
STAMP: Final = "%Y%m%dT%H%M%SZ"
PARTIAL: Final = ".mintscope-*.partial"
LOOK_S: Final = 60.0
COUNTS: Final = """
SELECT (SELECT count(*) FROM credit_account), (SELECT count(*) FROM credit_entry),
       (SELECT count(*) FROM payment)
"""


class Verified(NamedTuple):
    """The contents of a backup, as read from its restored copy.

    slot         the newest slot of the market; None if there is no block
    entries      number of entries of the journal of credits
    violations   contradictions in the tables of payments and credits; empty if they are sound
    migrations   number of migrations that had to run on the copy
    took_s       seconds to restore and to audit
    """

    slot: int | None
    credit_tokens: int
    entries: int
    payments: int
    violations: Sequence[Violation]
    migrations: int
    took_s: float


def take(config: Config, root: Path, progress: Progress, now: UnixMs) -> Path:
    """Copy the installation into a new folder in *root*, and record the backup; return the folder.

    Raises CannotCopy, UnusableStore, OSError, and FolderInUse if another backup is being written to
    *root*.
    """
    stamp = datetime.fromtimestamp(now / 1_000, UTC).strftime(STAMP)
    with folder.held(root, "backup", may_be_open=True):
        for left in root.glob(PARTIAL):  # parts of interrupted backups
            shutil.rmtree(left)
        target = root / f"mintscope-{stamp}"
        draft = root / f".mintscope-{stamp}.partial"
        if target.exists():
            raise CannotCopy(f"expected no {target}; there is one")
        try:
            back_up(config, draft, progress)
        except BaseException:  # also Ctrl-C: the disk may have no space for an unfinished copy
            shutil.rmtree(draft, ignore_errors=True)
            raise
        # Under its final name, `rotate` and operators take the folder for a complete backup.
        draft.rename(target)
    note(config, str(target.resolve()), now)  # read by commands in other working directories
    return target


def note(config: Config, place: str, now: UnixMs) -> None:
    """Record that a complete backup of the installation is at *place*; run no migrations.

    Do nothing if the store is too old for such records.  Raises StoreUnavailable; even then, the
    backup is complete.
    """
    try:
        if not has_records(engine_of(config).waiting_migrations()):
            return
        # A timer may run a new version while the old service still uses the store.
        with opened(config, "money", migrates=False) as money:
            provenance.note_backup(money, place, __version__, now)
    except (DatabaseError, UnusableStore) as cause:
        raise StoreUnavailable(
            f"the backup at {place} is complete, and could not be noted: {cause}"
        ) from cause


def rotate(root: Path, *, kept_max: int, keep_days: int) -> Sequence[Path]:
    """Remove the backups in *root* that need not be kept; return them, oldest first."""
    found = sorted(each for each in root.iterdir() if NAME.fullmatch(each.name) and each.is_dir())
    removed = [each for each in found if each not in kept(found, kept_max, keep_days)]
    for each in removed:
        shutil.rmtree(each)
    return removed


def kept(found: Sequence[Path], kept_max: int, keep_days: int) -> set[Path]:
    """Return the backups to keep: the newest *kept_max*, and the last one of each recent day.

    found       the backups, oldest first
    keep_days   number of days, among the newest days with a backup, whose last backup is kept
    """
    # Of the backups of a day, the last one stays in the dictionary.
    newest_of_day = {each.name[: len("mintscope-20261126")]: each for each in found}
    # [-0:] would be all days.
    days = sorted(newest_of_day)[-keep_days:] if keep_days else []
    return {*found[-kept_max:], *(newest_of_day[day] for day in days)}


def newest(config: Config) -> TakenBackup | None:
    """Return the newest recorded backup, or None.  Raises UnusableStore."""
    try:
        with opened(config, "money") as money:
            return provenance.newest_backup(money)
    except DatabaseError as cause:
        raise StoreUnavailable(f"{cause}") from cause


def safe_since(config: Config) -> UnixMs | None:
    """Return the time of the newest backup, or else of the first start; None if both are unknown.

    Raises UnusableStore, DatabaseError.
    """
    with opened(config, "money") as money:
        return provenance.safe_since(money)


async def verify(config: Config, source: Path, scratch: Path | None, clock: Clock) -> Verified:
    """Restore the backup *source* into a scratch folder, audit its books, and remove the folder.

    scratch   the parent of the scratch folder; None: the system's folder for temporary files
    Raises    CannotCopy; UnusableStore if the backup cannot be restored, or if it was made with
              another pepper; UnusablePepper if the pepper is missing or unusable
    """
    began_s = time.monotonic()
    with TemporaryDirectory(prefix="mintscope-verify-", dir=scratch) as name:
        restored = Path(name) / "data"
        copy_files(source, restored, lambda *_: None)
        if config.backup.secrets_to is not None:
            copy_secrets(config.backup.secrets_to, restored)
        # A backup is a folder of SQLite, whatever the engine of the installation.
        own = config.model_copy(update={"data_dir": restored, "store": None})
        _expect_pepper(own)
        ran = engine_of(own).migrations(is_done=True)
        async with open_money(own, clock) as money, open_market(own) as market:
            accounts = money.credits  # raises an error for the wrong pepper
            violations = [
                Violation(Invariant.BALANCE_IS_SUM, f"{account}")
                for account in await accounts.contradictions()
            ]
            violations += (await money.books.check(after_entry=None)).violations
            for begins in (False, True):  # first end the walk in progress, then make a complete one
                violations += await _walk(money.books, clock, begins=begins)
            overview = await market.reader.overview()
        with opened(own, "money") as rows:
            counts = rows.execute(COUNTS).get
        return Verified(
            slot=overview.slot,
            credit_tokens=counts[0],
            entries=counts[1],
            payments=counts[2],
            violations=sorted(set(violations), key=str),
            migrations=len(ran),
            took_s=round(time.monotonic() - began_s, 1),
        )


def _expect_pepper(config: Config) -> None:
    path = config.data_dir / folder.PEPPER_FILE
    if config.credits.pepper is None and not path.exists():
        raise UnusablePepper(
            "expected the pepper of the backup in it, in backup.secrets_to or in credits.pepper;"
            " there is none: without it no credit token of the backup is valid"
        )


async def _walk(books: AuditBooks, clock: Clock, *, begins: bool) -> Sequence[Violation]:
    """Check all invariants of the payment tables, part by part; return the violations.

    begins   whether to begin a new check if the last one is complete; else, resume the last one
    """
    found: list[Violation] = []
    part = await books.prove(now=clock.now(), begins=begins)
    found += part.violations
    while not part.is_finished:
        part = await books.prove(now=clock.now(), begins=False)
        found += part.violations
    return found


async def watch(config: Config, clock: Clock) -> None:
    """Export the age of the newest backup, or else of the installation, until cancelled.

    Look for a newer backup every minute.  If the store fails, look again in a minute.
    """
    while True:
        with suppress(UnusableStore, DatabaseError):  # other checks report this
            since = await asyncio.to_thread(safe_since, config)
            if since is not None:
                BACKUP_AGE_S.measure(partial(_age_s, clock, since))
        await asyncio.sleep(LOOK_S)


def _age_s(clock: Clock, since: UnixMs) -> float:
    return (clock.now() - since) / 1_000
