"""Secrets in files of their own, as systemd and containers provide them.

A secret setting `x` may have a sibling `x_file`, the file that holds it. The files are read once,
together with the configuration.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from mintscope.shell.config.secrecy import OpenSecret, expect_closed

ENDING: Final = "_file"
# Not read here but by its users, again each time: a keypair file of Solana.
READ_ELSEWHERE: Final = "payments.fee_payer_file"
BYTES_MAX: Final = 65_536


class UnusableSecretFile(ValueError):
    """A file does not hold a secret; the message says what was expected, and shows no contents."""


def secret_files(
    known: Collection[str], value: Callable[[str], Path | None]
) -> Iterator[tuple[str, Path]]:
    """Yield each secret setting that comes from a file, with the file.

    known   the keys of all settings
    value   returns the value of a key
    """
    for key in known:
        secret = key.removesuffix(ENDING)
        if key != READ_ELSEWHERE and key.endswith(ENDING) and secret in known:
            path = value(key)
            if path is not None:
                yield secret, path


def read_secret(path: Path) -> str:
    """Return the text in *path*; its lines are the parts of a list.

    Raises UnusableSecretFile
    """
    try:
        expect_closed(path)
        with path.open(encoding="utf-8") as file:
            text = file.read(BYTES_MAX + 1)
    except OSError as cause:
        raise UnusableSecretFile(f"{path} cannot be read: {cause.strerror}") from cause
    except OpenSecret as cause:
        raise UnusableSecretFile(str(cause)) from cause
    except UnicodeDecodeError as cause:
        raise UnusableSecretFile(f"expected text in {path}") from cause
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines or len(text) > BYTES_MAX:
        raise UnusableSecretFile(f"expected a secret in {path}; it is empty or too long")
    return ", ".join(lines)


def with_secrets(table: Mapping[str, Any], secrets: Mapping[str, str]) -> dict[str, Any]:
    """Return the TOML *table* with *secrets* in it, by their keys."""
    merged = {
        name: dict(part) if isinstance(part, Mapping) else part for name, part in table.items()
    }
    for key, text in secrets.items():
        section, _, name = key.rpartition(".")
        part = merged.setdefault(section, {}) if section else merged
        part[name] = text
    return merged
