"""Tracked tokens, and how long their data is kept."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from mintscope.base.solana import DOLLARS, STAKING_TOKENS
from mintscope.core.market.shards.shard import parse_shard
from mintscope.shell.config import values
from mintscope.shell.config.sections import Section


def _as_shard(text: str) -> str:
    try:
        return str(parse_shard(text))
    except ValueError as error:
        raise ValueError(str(error).partition("; was ")[0]) from error  # the value is added later


class MarketConfig(Section):
    """Which tokens are followed, and how much is kept of them."""

    track: Literal["list", "all"] = "list"
    """Follow listed tokens only, or also all that reach the floor."""
    mints: values.Mints = ()
    """Token mints listed on a new installation, beside wrapped SOL; later `mintscope tokens
    add`."""
    dollars: values.Mints = tuple(sorted(DOLLARS))
    """Stable mints of 6 decimals that count as one dollar while they are within 1 % of the median
    of all of them."""
    staking_tokens: values.Mints = tuple(sorted(STAKING_TOKENS))
    """Liquid staking tokens whose price in SOL prices what trades against them."""
    shard: Annotated[str, AfterValidator(_as_shard)] = "1/1"
    """The part of all tokens that this ingest writes, as NUMBER/COUNT: each part has a `store` of
    its own, and needs track "all". `mintscope api` cannot read several parts yet: see
    docs/operating/scale.md."""
    floor_swaps_per_day: values.Count = 100
    """With track "all": swaps that a token needs in a UTC day."""
    floor_usd_per_day: values.Count = 10_000
    """With track "all": USD that a token needs to trade in that day too."""
    dead_after_days: int = Field(default=7, ge=1, le=3_650)
    """With track "all": days below the floor until dropped."""
    retention_m1_hours: int = Field(default=72, ge=25, le=87_600)
    """Minute candles kept; pressure reads the last 24 hours."""
    retention_m5_hours: int = Field(default=336, ge=1, le=87_600)
    """5-minute candles kept."""
    retention_m15_days: int = Field(default=45, ge=1, le=3_650)
    """15-minute candles kept."""
    retention_h1_days: int = Field(default=180, ge=1, le=3_650)
    """Hour candles kept."""
    retention_swaps_minutes: int = Field(default=15, ge=15, le=44_640)
    """Single swaps kept behind the newest that is final, for /v1/token/.../swaps; about 300 bytes
    each, of every token that is followed."""
    live_mints_max: int = Field(default=10_000, ge=1, le=1_000_000)
    """Tokens held in memory, about 15 kB each."""
