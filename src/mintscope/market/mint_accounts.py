"""Facts of mints, read from a node once a mint is tracked, and then every day."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import structlog

from mintscope.kit.clock import Clock
from mintscope.kit.errors import ServiceUnavailable, Undecodable, decode_base64
from mintscope.kit.primitives import Mint, Slot, UnixMs
from mintscope.kit.time import DAY_S, MINUTE_S, SECOND_MS
from mintscope.market.mint_facts import (
    ChainAccount,
    MintFacts,
    NotAMint,
    facts_of,
    metadata_address,
)
from mintscope.market.store.log_writer import SqlMintFacts
from mintscope.solana.blocks import SourceError
from mintscope.solana.rpc import Commitment, Rpc, Unreachable
from mintscope.solana.wire import AccountWire

MINTS_A_CALL: Final = 50  # getMultipleAccounts takes 100 addresses; a mint needs two
REFRESH_S: Final = DAY_S
UNREAD_EARLY_S: Final = DAY_S - 15 * MINUTE_S  # an unread mint is due again this much earlier
LOOK_S: Final = 30.0  # pause between two calls: this allows 144,000 mints a day

log = structlog.get_logger()


class Unread(NotAMint):
    """The node could not return the account of a mint; the message has the reason."""


Read = dict[Mint, MintFacts | NotAMint]


async def keep_facts(rpc: Rpc, store: SqlMintFacts, clock: Clock) -> None:
    """Read the facts of each mint once it is tracked, and then every day; never return.

    If the node or the store does not answer, this tries again after LOOK_S.
    """
    while True:
        with suppress(ServiceUnavailable):
            try:
                await refresh_facts(rpc, store, clock)
            except SourceError as error:
                log.warning("mint_facts_unread", reason=str(error))
        await asyncio.sleep(LOOK_S)


async def refresh_facts(rpc: Rpc, store: SqlMintFacts, clock: Clock) -> None:
    """Read the facts of tracked mints that are due, at most MINTS_A_CALL of them, in one call.

    The mints that were read longest ago come first.  If the call fails, each mint is read by
    itself.  A mint that cannot be read is due again after a quarter of an hour; an account that is
    not a mint, after a day.

    Raises SourceError if the node fails, and ServiceUnavailable if the store does not answer.
    """
    before_ms = UnixMs(clock.now() - REFRESH_S * SECOND_MS)
    mints = await store.due(before_ms, MINTS_A_CALL)
    if not mints:
        return
    try:
        read = await read_facts(rpc, mints, clock)
    except SourceError as failure:
        read = await _read_each(rpc, mints, clock, failure)
    for mint, facts in read.items():
        if isinstance(facts, MintFacts):
            await store.save(mint, facts)
        else:
            early_s = UNREAD_EARLY_S if isinstance(facts, Unread) else 0
            await store.missed(mint, UnixMs(clock.now() - early_s * SECOND_MS))


async def read_facts(rpc: Rpc, mints: Sequence[Mint], clock: Clock) -> Read:
    """Return the facts of each of *mints*, at most 50, or the reason why it is not a mint.

    Raises SourceError if the node fails.
    """
    addresses = [address for mint in mints for address in (mint, metadata_address(mint))]
    accounts, slot = await read_accounts(rpc, addresses)
    return {
        mint: _facts(mint, accounts[2 * at], accounts[2 * at + 1], slot, clock)
        for at, mint in enumerate(mints)
    }


async def _read_each(rpc: Rpc, mints: Sequence[Mint], clock: Clock, cause: SourceError) -> Read:
    """Return the facts of each of *mints*, or the reason why they cannot be read.

    cause    the failure of reading all at once; raised if no mint can be read
    Raises   SourceError if the node does not answer other requests either
    """
    read: Read = {}
    failures: dict[Mint, SourceError] = {}
    for mint in mints:
        try:
            read |= await read_facts(rpc, [mint], clock)
        except SourceError as failure:
            # This raises if the node does not answer at all: then the mint is not the reason.
            await rpc.slot(Commitment.CONFIRMED)
            failures[mint] = failure
    if not read:  # perhaps the node refuses the method, so all mints stay due
        raise cause
    for mint, trouble in failures.items():
        log.warning("mint_facts_unread", mint=mint, reason=str(trouble))
        read[mint] = Unread(str(trouble))
    return read


async def read_accounts(
    rpc: Rpc, addresses: Sequence[str]
) -> tuple[Sequence[ChainAccount | None], Slot]:
    """Return the account at each of *addresses*, or None, and the slot at which they were read.

    Raises SourceError if the node fails.
    """
    answer = await rpc.accounts(addresses)
    # Accounts are found by their place, so after a missing one, all would belong to other mints.
    if len(answer.value) != len(addresses):
        raise Unreachable(f"expected {len(addresses)} accounts; was {len(answer.value)}")
    return [_account(wire) for wire in answer.value], Slot(answer.context.slot)


def _facts(
    mint: Mint,
    account: ChainAccount | None,
    metadata: ChainAccount | None,
    slot: Slot,
    clock: Clock,
) -> MintFacts | NotAMint:
    try:
        return facts_of(mint, account, metadata, slot=slot, read_at_ms=clock.now())
    except NotAMint as error:
        return error


def _account(wire: AccountWire | None) -> ChainAccount | None:
    if wire is None:
        return None
    try:
        return ChainAccount(owner=wire.owner, data=decode_base64(wire.data[0]))
    except Undecodable as cause:
        raise Unreachable(f"getMultipleAccounts: {cause}") from cause
