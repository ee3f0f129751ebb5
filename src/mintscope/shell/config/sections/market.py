"""Settings of the market."""

from typing import Literal

from pydantic import Field

from mintscope.shell.config.sections.section import Section
from mintscope.shell.config.values import (
    Count,
    Mints,
)


class MarketConfig(Section):
    """Which tokens are followed, and how much is kept of them."""

    track: Literal["list", "all"] = Field(
        default="list", description="Follow listed tokens only, or also all that reach the floor."
    )
    mints: Mints = Field(
        default=(),
        description="Token mints listed on a new installation, beside wrapped SOL; later"
        " `mintscope tokens add`.",
    )
    floor_swaps_per_day: Count = Field(
        default=100, description='With track "all": swaps that a token needs in a UTC day.'
    )
    floor_usd_per_day: Count = Field(
        default=10_000,
        description='With track "all": USD that a token needs to trade in that day too.',
    )
    dead_after_days: int = Field(
        default=7,
        ge=1,
        le=3_650,
        description='With track "all": days below the floor until dropped.',
    )
    retention_m1_hours: int = Field(
        default=72,
        ge=25,
        le=87_600,
        description="Minute candles kept; pressure reads the last 24 hours.",
    )
    retention_m5_hours: int = Field(
        default=336, ge=1, le=87_600, description="5-minute candles kept."
    )
    retention_m15_days: int = Field(
        default=45, ge=1, le=3_650, description="15-minute candles kept."
    )
    retention_h1_days: int = Field(default=180, ge=1, le=3_650, description="Hour candles kept.")
    live_mints_max: int = Field(
        default=10_000, ge=1, le=1_000_000, description="Tokens held in memory, about 15 kB each."
    )
