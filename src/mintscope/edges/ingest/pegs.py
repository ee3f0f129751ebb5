"""Shows which dollars have left their peg: they price nothing until they are back."""

from collections.abc import Mapping
from typing import Final

import structlog

from mintscope.base.metrics import DOLLAR_OFF_PEG
from mintscope.base.primitives import Mint, UnixS
from mintscope.core.market.quotes import PEG_MAX

log = structlog.get_logger()

TOLD_EVERY_S: Final = 60  # of one dollar: at the edge of its peg it may come and go with each block


class Pegs:
    """How far each dollar is off, as of the newest block."""

    def __init__(self) -> None:
        self._shown: Mapping[Mint, float] = {}
        self._told: dict[Mint, tuple[bool, UnixS]] = {}

    def show(self, off_peg: Mapping[Mint, float], time: UnixS) -> None:
        """Show *off_peg* of a block at *time*, and log which dollars left their peg or are back."""
        if off_peg == self._shown:
            return
        for mint in self._shown.keys() - off_peg.keys():
            DOLLAR_OFF_PEG.remove(mint)
        for mint, share in off_peg.items():
            DOLLAR_OFF_PEG.labels(mint).set(share)
            self._tell(mint, share, time)
        self._shown = off_peg

    def _tell(self, mint: Mint, share: float, time: UnixS) -> None:
        is_off = abs(share) > PEG_MAX
        was_off, told_at = self._told.get(mint, (False, UnixS(0)))
        if is_off == was_off or time - told_at < TOLD_EVERY_S:
            return
        self._told[mint] = is_off, time
        log.warning("dollar_off_peg" if is_off else "dollar_on_peg", mint=mint, off=round(share, 4))
