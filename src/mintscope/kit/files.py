"""Checks access to files, sets the owner of new files, and creates private folders."""

import os
import pwd
from contextlib import suppress
from pathlib import Path


def access_trouble(path: Path) -> str | None:
    """Return the reason why this process cannot read and write *path*; None if it can.

    If *path* does not exist, the nearest existing folder above it is checked instead.
    """
    place = path
    while True:
        try:
            found = place.stat()
            break
        except OSError:
            if place == place.parent:
                return None
            place = place.parent
    if os.statvfs(place).f_flag & os.ST_RDONLY:
        return f"the file system of {place} is read-only"
    needed = os.R_OK | os.W_OK | (os.X_OK if place.is_dir() else 0)
    # By default, `access` tests the real user, but files are opened as the effective one.
    if os.access(place, needed, effective_ids=True):
        return None
    owner = _user_name(found.st_uid)
    user = _user_name(os.geteuid())
    if owner == user:
        return f"{place} is closed to its owner, {owner}: chmod u+rwX {place}"
    # In the folder of the service's user, another owner of a file is a mistake.
    is_misplaced = not place.is_dir() and place.parent.stat().st_uid == os.geteuid()
    remedy = f"chown {os.geteuid()} {place}" if is_misplaced else f"run it as {owner}"
    return f"{place} belongs to {owner}, and this process runs as {user}: {remedy}"


def _user_name(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"


def give_to_owner(path: Path) -> None:
    """If this process runs as root, make the owner of the folder of *path* the owner of *path*."""
    # Otherwise the service could not open files that a command has created as root.  Symbolic links
    # are not followed, because the owner of the folder could use one to obtain a file of root.  If
    # a network share refuses the change, root stays the owner.
    if os.geteuid() == 0:
        owner = path.parent.stat()
        with suppress(PermissionError):
            os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)


def make_folder(path: Path) -> None:
    """Create the folder *path* and its missing parents, which only their owner can open."""
    lacking = [each for each in (path, *path.parents) if not each.exists()]
    for each in reversed(lacking):
        each.mkdir(mode=0o700, exist_ok=True)
        give_to_owner(each)
