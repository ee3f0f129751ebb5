"""Block files that a run passes over, because nothing in them is new."""

import structlog

from mintscope.base.primitives import Slot
from mintscope.base.solana import Tip

log = structlog.get_logger()


class SkippedFiles:
    """Warns once of each file of which no block lies after the tip of the run before."""

    def __init__(self, after: Tip | None) -> None:
        self._after = after
        self._file = ""
        self._last: Slot | None = None  # none once the file had a new block

    def note(self, where: str, slot: Slot, *, is_new: bool) -> None:
        """Note the block at *where*, a file and a line; *is_new*: it is passed on."""
        file = where.rpartition(":")[0]
        if file != self._file:
            self.finish()
            self._file = file
            self._last = slot
        if self._last is not None:
            self._last = None if is_new else slot

    def finish(self) -> None:
        """Warn if the last file held no new block."""
        if self._after is not None and self._last is not None:
            since = self._after.slot + 1
            file = self._file
            log.warning(
                "block_file_not_newer", file=file, last_slot=self._last, expected_from=since
            )
