"""The pepper: the key of every stored hash, in a file of its own outside the database."""

import os
from pathlib import Path
from secrets import token_bytes, token_hex

from mintscope.base.credentials import PEPPER_BYTES_MIN
from mintscope.base.errors import UnusablePepper


def load_pepper(path: Path) -> bytes:
    """Return the pepper kept at *path*, made now if there is no such file.

    It must be backed up apart from the database: without it every issued
    credential is void.

    Raises UnusablePepper for a file that holds something else.
    """
    if not path.exists():
        _make(path)
    try:
        pepper = bytes.fromhex(path.read_text().strip())
    except (OSError, ValueError) as cause:
        raise UnusablePepper(f"expected {PEPPER_BYTES_MIN} bytes in hex at {path}") from cause
    if len(pepper) < PEPPER_BYTES_MIN:
        raise UnusablePepper(
            f"expected at least {PEPPER_BYTES_MIN} bytes in hex at {path}; there were {len(pepper)}"
        )
    return pepper


def _make(path: Path) -> None:
    """Write a new pepper whole or not at all; whoever is first, wins."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{token_hex(4)}")
    draft.touch(mode=0o600, exist_ok=False)
    with draft.open("w") as file:
        file.write(token_bytes(PEPPER_BYTES_MIN).hex() + "\n")
        file.flush()
        os.fsync(file.fileno())
    try:
        path.hardlink_to(draft)
    except FileExistsError:
        pass
    finally:
        draft.unlink()
