"""Whether blocks are stored: the newest that was, and why none can be."""

from prometheus_client import REGISTRY

from mintscope.base.errors import ServiceUnavailable
from mintscope.base.primitives import Slot


def newest_stored() -> tuple[Slot | None, float | None]:
    """Return slot and age, in seconds, of the newest block that this process has stored."""
    slot = REGISTRY.get_sample_value("mintscope_ingest_slot")
    age_s = REGISTRY.get_sample_value("mintscope_ingest_lag_s")
    return None if slot is None else Slot(int(slot)), age_s


class Writing:
    """What kept the market from being written, until a block is stored after it."""

    def __init__(self) -> None:
        self._trouble = ""
        self._slot: Slot | None = None

    def note(self, trouble: Exception) -> None:
        """Note what went wrong."""
        self._trouble = str(trouble)
        self._slot, _ = newest_stored()

    async def expect_stored(self) -> None:
        """Raise ServiceUnavailable while no block was stored since it went wrong."""
        if not self._trouble:
            return
        if newest_stored()[0] != self._slot:
            self._trouble = ""
            return
        raise ServiceUnavailable(
            f"the market cannot be written: {self._trouble}: is the disk full? is PostgreSQL there?"
        )
