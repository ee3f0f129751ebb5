"""Settings of the source of blocks."""

from typing import Literal

from pydantic import Field, SecretStr

from mintscope.shell.config.sections.section import Section
from mintscope.shell.config.values import (
    Headers,
    Paths,
    Seconds,
    Start,
    Url,
)


class ChainConfig(Section):
    """Where blocks come from."""

    source: Literal["rpc", "files"] = Field(
        default="rpc", description="A JSON-RPC node, or block files."
    )
    rpc_url: Url = Field(
        default=SecretStr("http://127.0.0.1:8899"),
        description="The node. May hold the provider's key, so only its host is ever shown.",
    )
    rpc_headers: Headers = Field(
        default={},
        description="Headers for the provider. In the environment: `Name: value, Name: value`.",
    )
    files: Paths = Field(
        default=(),
        description="Block files, read in this order: getBlock JSON lines, plain or gzip.",
    )
    start: Start = Field(
        default="latest",
        description='Where a new installation begins: "latest", "first" (the oldest block the node'
        " has) or a slot. An existing one goes on where it stopped.",
    )
    backfill_slots: int = Field(
        default=1_500,
        ge=0,
        description='How far before "latest" to begin; 1,500 slots are ten minutes.',
    )
    requests_in_flight: int = Field(
        default=10, ge=1, le=100, description="How many blocks are requested at a time."
    )
    timeout_s: Seconds = Field(
        default=20.0, description="Timeout of one request, from the first to the last byte."
    )
    poll_interval_ms: int = Field(
        default=150,
        ge=10,
        le=60_000,
        description="Pause before the next request when there was no new block.",
    )
    gap_after_s: Seconds = Field(
        default=120.0,
        description="How long to ask for a block that must exist before its slots are recorded as a"
        " gap.",
    )
    max_gap_slots: int = Field(
        default=216_000,
        ge=0,
        description="After a longer absence the slots missed become a gap instead of being caught"
        " up; 216,000 slots are a day; 0 always catches up.",
    )
    max_transaction_version: int = Field(
        default=0, ge=0, le=127, description="Newest transaction version to accept from the node."
    )
