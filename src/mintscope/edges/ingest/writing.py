"""The check that blocks are stored, and the newest stored block."""

from prometheus_client import REGISTRY

from mintscope.base.errors import ServiceUnavailable
from mintscope.base.primitives import Slot


def newest_stored() -> tuple[Slot | None, float | None]:
    """Return the slot and the age, in seconds, of the newest block stored by this process."""
    slot = REGISTRY.get_sample_value("mintscope_ingest_slot")
    age_s = REGISTRY.get_sample_value("mintscope_ingest_lag_s")
    return None if slot is None else Slot(int(slot)), age_s


class Writing:
    """The last failure to write the market, until a block is stored after it."""

    def __init__(self) -> None:
        self._trouble = ""
        self._slot: Slot | None = None

    def note(self, trouble: Exception) -> None:
        """Note a failure."""
        self._trouble = str(trouble)
        self._slot, _ = newest_stored()

    async def expect_stored(self) -> None:
        """Raise ServiceUnavailable while no block was stored since the failure."""
        if not self._trouble:
            return
        if newest_stored()[0] != self._slot:
            self._trouble = ""
            return
        raise ServiceUnavailable(
            f"the market cannot be written: {self._trouble}: is the disk full? is PostgreSQL there?"
        )
