"""Writes the JSON of a market transaction, in the form of getBlock, from its instructions.

It determines keys and indexes, balances before and after, logs, and flat lists of inner
instructions.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Final, NamedTuple

from mintscope.kit.primitives import Signature
from mintscope.solana.blocks import WSOL
from mintscope_devchain.addresses import (
    ASSOCIATED,
    COMPUTE_BUDGET,
    JUPITER,
    READ_ONLY,
    SPL,
    SPL_2022,
    SYSTEM,
    VOTE,
    address,
    text,
)
from mintscope_devchain.market.world import World
from mintscope_devchain.svm.tokens import ui_amount
from mintscope_devchain.transaction import (
    OTHER_RENT,
    TOKEN_ACCOUNT_RENT,
    Holding,
    Invocation,
    Json,
    MarketTransaction,
    Submission,
    moves,
)

NATIVE: Final = frozenset({SYSTEM, COMPUTE_BUDGET, VOTE})
UNITS: Final = {SPL: 4_645, SPL_2022: 3_484, ASSOCIATED: 4_357, JUPITER: 26_000}
UNITS_NATIVE: Final = 150
UNITS_OTHER: Final = 29_000
UNITS_MAX: Final = 300_000
SLIPPAGE_EXCEEDED: Final = 6001
LOOKUP_TABLE: Final = address("lookup table")


def render(
    transaction: MarketTransaction, signature: Signature, recent_blockhash: str, world: World
) -> Json:
    """Return *transaction* in the JSON form of the RPC method getBlock."""
    envelope = transaction.envelope
    calls = transaction.build()
    flat = [_flatten(call.inner, 2) for call in calls]
    keys = _keys(calls, envelope, world)
    every = keys.all
    position = {key: number for number, key in enumerate(every)}
    message: Json = {
        "header": keys.header,
        "accountKeys": keys.static,
        "recentBlockhash": recent_blockhash,
        "instructions": [_instruction(1, call, position) for call in calls],
    }
    if envelope.version is not None:
        message["addressTableLookups"] = keys.lookups
    inner = [
        {"index": outer, "instructions": [_instruction(*each, position) for each in below]}
        for outer, below in enumerate(flat)
        if below
    ]
    meta = _outcome(envelope) | {
        "fee": envelope.fee,
        "innerInstructions": inner,
        "logMessages": _logs(calls, 1, envelope.failed_at),
        "rewards": None,
        "loadedAddresses": {"writable": keys.loaded_writable, "readonly": keys.loaded_readonly},
        "computeUnitsConsumed": sum(map(_units, calls)),
    }
    held = {key: world.holdings[key] for key in every if key in world.holdings}
    after = _after(transaction, calls)
    for when, balances in (("pre", transaction.before), ("post", after)):
        meta[f"{when}Balances"] = _lamports(every, balances, held)
        meta[f"{when}TokenBalances"] = _token_balances(position, balances, held)
    return {
        "transaction": {"signatures": [signature], "message": message},
        "meta": meta,
        "version": "legacy" if envelope.version is None else envelope.version,
    }


class Named:
    """The data of a market transaction that lists of transactions need, without making its JSON.

    error   the error of the transaction; None if it succeeded
    """

    def __init__(self, transaction: MarketTransaction, world: World) -> None:
        self.error = _outcome(transaction.envelope)["err"]
        self._transaction = transaction
        self._world = world

    def names(self, account: str) -> bool:
        """Return whether the transaction names *account*, directly or in a lookup table."""
        # Its keys take a third of the time of `render`: they are needed for few accounts.
        return self._world.may_name(self._transaction, account) and account in self._keys

    @cached_property
    def _keys(self) -> frozenset[str]:
        calls = self._transaction.build()
        return frozenset(_keys(calls, self._transaction.envelope, self._world).all)


class _Keys(NamedTuple):
    """The account keys of a transaction's message, in the order in which indexes refer to them."""

    static: list[str]
    loaded_writable: list[str]
    loaded_readonly: list[str]
    header: Json
    lookups: list[Json]

    @property
    def all(self) -> list[str]:
        return self.static + self.loaded_writable + self.loaded_readonly


def _keys(calls: Sequence[Invocation], envelope: Submission, world: World) -> _Keys:
    nodes = [call for _, call in _flatten(calls, 1)]
    named = dict.fromkeys(key for call in nodes for key in call.accounts)
    named |= dict.fromkeys(call.program for call in nodes)
    # The payer is always the first key, wherever the instructions name it.
    del named[envelope.payer]
    readonly = [key for key in named if key in READ_ONLY or key in world.mints]
    fixed = set(readonly)
    writable = [key for key in named if key not in fixed]
    loaded_writable: list[str] = []
    loaded_readonly: list[str] = []
    if envelope.uses_table:
        own = {key for key in writable if _owner(key, world) == envelope.payer}
        invoked = {call.program for call in calls}
        loaded_writable = [key for key in writable if key not in own]
        loaded_readonly = [key for key in readonly if key not in invoked]
        writable = [key for key in writable if key in own]
        readonly = [key for key in readonly if key in invoked]
    split = len(loaded_writable)
    lookup: Json = {
        "accountKey": LOOKUP_TABLE,
        "writableIndexes": list(range(split)),
        "readonlyIndexes": list(range(split, split + len(loaded_readonly))),
    }
    return _Keys(
        static=[envelope.payer, *writable, *readonly],
        loaded_writable=loaded_writable,
        loaded_readonly=loaded_readonly,
        header={
            "numRequiredSignatures": 1,
            "numReadonlySignedAccounts": 0,
            "numReadonlyUnsignedAccounts": len(readonly),
        },
        lookups=[lookup] if envelope.uses_table else [],
    )


def _owner(key: str, world: World) -> str | None:
    holding = world.holdings.get(key)
    return None if holding is None else holding.owner


def _flatten(calls: Iterable[Invocation], height: int) -> list[tuple[int, Invocation]]:
    flat: list[tuple[int, Invocation]] = []
    for call in calls:
        flat.append((height, call))
        if call.inner:
            flat += _flatten(call.inner, height + 1)
    return flat


def _instruction(height: int, call: Invocation, position: Mapping[str, int]) -> Json:
    return {
        "programIdIndex": position[call.program],
        "accounts": [position[key] for key in call.accounts],
        "data": text(call.data),
        "stackHeight": height,
    }


def _after(transaction: MarketTransaction, calls: Sequence[Invocation]) -> Mapping[str, int]:
    after = dict(transaction.before)
    after[transaction.envelope.payer] -= transaction.envelope.fee
    if transaction.envelope.failed_at is None:
        for source, target, amount in moves(calls):
            if source:
                after[source] -= amount
            if target:
                after[target] += amount
    return after


def _outcome(envelope: Submission) -> Json:
    if envelope.failed_at is None:
        return {"err": None, "status": {"Ok": None}}
    error = {"InstructionError": [envelope.failed_at, {"Custom": SLIPPAGE_EXCEEDED}]}
    return {"err": error, "status": {"Err": error}}


def _lamports(
    keys: Sequence[str], balances: Mapping[str, int], held: Mapping[str, Holding]
) -> list[int]:
    lamports = []
    for key in keys:
        if key not in held:
            # Native programs have a single lamport.
            lamports.append(balances.get(key, 1 if key in NATIVE else OTHER_RENT))
        elif held[key].token.mint == WSOL:
            lamports.append(TOKEN_ACCOUNT_RENT + balances.get(key, 0))
        else:
            lamports.append(TOKEN_ACCOUNT_RENT)
    return lamports


def _token_balances(
    position: Mapping[str, int], balances: Mapping[str, int], held: Mapping[str, Holding]
) -> list[Json]:
    return [
        {
            "accountIndex": position[key],
            "mint": token.mint,
            "owner": owner,
            "programId": token.program,
            "uiTokenAmount": _ui_amount(balances.get(key, 0), token.decimals),
        }
        for key, (owner, token) in held.items()
    ]


def _ui_amount(amount: int, decimals: int) -> Json:
    shown = ui_amount(amount, decimals)
    # In blocks, nodes report null as the `uiAmount` of a balance of 0.
    return shown if amount else shown | {"uiAmount": None}


def _units(call: Invocation) -> int:
    own = UNITS_NATIVE if call.program in NATIVE else UNITS.get(call.program, UNITS_OTHER)
    return own + sum(map(_units, call.inner))


def _logs(calls: Sequence[Invocation], height: int, failed_at: int | None = None) -> list[str]:
    lines: list[str] = []
    for number, call in enumerate(calls):
        lines.append(f"Program {call.program} invoke [{height}]")
        if call.says:
            lines.append(f"Program log: {call.says}")
        if call.inner:
            lines += _logs(call.inner, height + 1)
        lines += call.log
        if call.program not in NATIVE:
            used = _units(call)
            lines.append(f"Program {call.program} consumed {used} of {UNITS_MAX} compute units")
        if number == failed_at:
            error = f"custom program error: {SLIPPAGE_EXCEEDED:#x}"
            lines.append(f"Program {call.program} failed: {error}")
            break
        lines.append(f"Program {call.program} success")
    return lines
