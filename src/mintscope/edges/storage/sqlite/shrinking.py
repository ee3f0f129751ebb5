"""Files return unused pages to the disk, some at a time."""

from typing import Final

from mintscope.base.metrics import FREE_BYTES
from mintscope.edges.storage.database import Database
from mintscope.edges.storage.sqlite.connection import SIZES

# Free pages are used again before the file grows: only those beyond these bounds are returned.
FREE_PAGES_MAX: Final = 4_096
FREE_SHARE_MAX: Final = 0.1
PAGES_A_STEP: Final = 256  # a megabyte, in some milliseconds


def return_free_pages(db: Database, kind: str) -> None:
    """Return up to PAGES_A_STEP pages of the file of *kind* to the disk, if many are unused."""
    pages, free = (
        int(db.execute(f"PRAGMA {name}").get) for name in ("page_count", "freelist_count")
    )
    FREE_BYTES.labels(kind).set(free * SIZES[kind].page_bytes)
    if free > max(FREE_PAGES_MAX, pages * FREE_SHARE_MAX):
        db.execute(f"PRAGMA incremental_vacuum({PAGES_A_STEP})")
