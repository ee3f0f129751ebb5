"""Reads facts of mints, such as names, from a node: once a mint is tracked, and then every day."""

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
    """Read facts of mints, such as names, from a node, and store them; never return.

    The facts of a mint are read once it is tracked, and then every day.  If the node or the store
    does not answer, this tries again after LOOK_S.
    """
    while True:
        with suppress(ServiceUnavailable):
            try:
                await refresh_facts(rpc, store, clock)
            except SourceError as error:
                log.warning("mint_facts_unread", reason=str(error))
        await asyncio.sleep(LOOK_S)


async def refresh_facts(rpc: Rpc, store: SqlMintFacts, clock: Clock) -> None:
    """Read the accounts of some tracked mints from a node, and store their facts, such as names.

    At most MINTS_A_CALL mints are read in one call, those first that were read longest ago.  If the
    call fails, each mint is read by itself.  A mint that cannot be read is due again after a
    quarter of an hour; an account that is not a mint, after a day.

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
    """Return the facts of each of *mints* from a node, or the reason why it is no mint.

    Raises SourceError if the node fails.

    mints   at most 50
    """
    addresses = [address for mint in mints for address in (mint, metadata_address(mint))]
    accounts, slot = await read_accounts(rpc, addresses)
    return {
        mint: _facts(mint, accounts[2 * at], accounts[2 * at + 1], slot, clock)
        for at, mint in enumerate(mints)
    }


async def _read_each(rpc: Rpc, mints: Sequence[Mint], clock: Clock, cause: SourceError) -> Read:
    """Read the facts of each of *mints* by itself; return them, or why they cannot be read.

    Raises *cause* if no mint can be read, and SourceError if the node does not answer other
    requests either.

    cause    the failure of reading all at once
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
    """Read the account at each of *addresses* from a node; None if there is no account.

    Returns also the slot at which they were read.  Raises SourceError if the node fails.
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
