"""Engines that are extras of the package: each is imported where it is configured."""

from collections.abc import Iterator
from contextlib import contextmanager

from mintscope.base.errors import UnusableStore


@contextmanager
def extra(name: str, package: str, setting: str) -> Iterator[None]:
    """Import an engine during the block.

    name      of the extra, and of the file in requirements, that installs the Python *package*
    setting   that asked for it
    Raises    UnusableStore where it is not installed
    """
    try:
        yield
    except ModuleNotFoundError as cause:
        raise UnusableStore(
            f"expected the Python package {package}, for the setting {setting}; it is not"
            f" installed: pip install --require-hashes -r requirements/{name}.txt, a file of"
            " mintscope's sources"
        ) from cause
