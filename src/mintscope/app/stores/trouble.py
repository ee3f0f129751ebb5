"""Messages to operators about errors that end a command."""

import errno
from pathlib import Path

from mintscope.kit.errors import ServiceUnavailable, UnusableStore
from mintscope.kit.files import access_trouble
from mintscope.kit.sql.database import DatabaseError


def trouble_in_words(error: Exception) -> str | None:
    """Return a message for an error of a store, file or connection; None for other errors."""
    if isinstance(error, OSError):
        path = error.filename
        is_refused = error.errno in {errno.EACCES, errno.EPERM, errno.EROFS}
        why = access_trouble(Path(path)) if is_refused and isinstance(path, str) else None
        return str(error) if why is None else f"cannot use {path}: {why}"
    if isinstance(error, UnusableStore | DatabaseError):
        return str(error)
    if isinstance(error, ServiceUnavailable):
        return f"{error} {error.__cause__ or ''}".rstrip()
    return None
