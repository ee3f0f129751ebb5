"""Writes a landed transaction in the JSON form of getBlock and getTransaction."""

from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from based58 import b58encode
from solders.account import Account
from solders.instruction import CompiledInstruction
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from mintscope_devchain.svm.bank import Execution
from mintscope_devchain.svm.message import AnyMessage
from mintscope_devchain.svm.tokens import read_holding, read_mint, ui_amount
from mintscope_devchain.transaction import Json

MEMO_PROGRAMS: Final = frozenset(
    {
        Pubkey.from_string("Memo1UhkJRfHyvLMcVucJwxXeuD728EqVDDwQDxFMNo"),
        Pubkey.from_string("MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr"),
    }
)


def entry(
    transaction: VersionedTransaction,
    outcome: Execution,
    account: Callable[[Pubkey], Account | None],
) -> Json:
    """Return *transaction* and its outcome in the form of an entry of getBlock.

    account    a function that reads an account, used for mints and for read-only accounts
    """
    return {
        "transaction": {
            "signatures": [str(signature) for signature in transaction.signatures],
            "message": _message(transaction.message),
        },
        "meta": _meta(outcome, account),
        "version": 0 if isinstance(transaction.message, MessageV0) else "legacy",
    }


def memo(transaction: VersionedTransaction) -> str | None:
    """Return the memos of *transaction* as "[length] text"; None if it has no memo."""
    message = transaction.message
    texts = [
        bytes(call.data)
        for call in message.instructions
        if message.account_keys[call.program_id_index] in MEMO_PROGRAMS
    ]
    shown = [f"[{len(text)}] {text.decode(errors='replace')}" for text in texts]
    return "; ".join(shown) if shown else None


def _message(message: AnyMessage) -> Json:
    header = message.header
    shown: Json = {
        "header": {
            "numRequiredSignatures": header.num_required_signatures,
            "numReadonlySignedAccounts": header.num_readonly_signed_accounts,
            "numReadonlyUnsignedAccounts": header.num_readonly_unsigned_accounts,
        },
        "accountKeys": [str(key) for key in message.account_keys],
        "recentBlockhash": str(message.recent_blockhash),
        "instructions": [_instruction(call, 1) for call in message.instructions],
    }
    if isinstance(message, MessageV0):
        shown["addressTableLookups"] = [
            {
                "accountKey": str(lookup.account_key),
                "writableIndexes": list(lookup.writable_indexes),
                "readonlyIndexes": list(lookup.readonly_indexes),
            }
            for lookup in message.address_table_lookups
        ]
    return shown


def _meta(outcome: Execution, account: Callable[[Pubkey], Account | None]) -> Json:
    keys = outcome.keys.all
    read = {key: account(key) for key in keys if key not in outcome.before}
    before = {**read, **outcome.before}
    after = {**read, **outcome.after}
    error = outcome.error
    meta: Json = {
        "err": error,
        "status": {"Ok": None} if error is None else {"Err": error},
        "fee": outcome.fee,
        "preBalances": [_lamports(before[key]) for key in keys],
        "postBalances": [_lamports(after[key]) for key in keys],
        "innerInstructions": inner_instructions(outcome),
        "logMessages": list(outcome.logs),
        "preTokenBalances": list(_token_balances(keys, before, account)),
        "postTokenBalances": list(_token_balances(keys, after, account)),
        "rewards": None,
        "loadedAddresses": {
            "writable": [str(key) for key in outcome.keys.loaded_writable],
            "readonly": [str(key) for key in outcome.keys.loaded_readonly],
        },
        "computeUnitsConsumed": outcome.units,
    }
    if outcome.returned is not None:
        meta["returnData"] = return_data(outcome)
    return meta


def inner_instructions(outcome: Execution) -> list[Json]:
    """Return the inner instructions of *outcome*, in a list for each instruction that has any."""
    return [
        {"index": index, "instructions": [_instruction(*call) for call in calls]}
        for index, calls in enumerate(outcome.inner)
        if calls
    ]


def return_data(outcome: Execution) -> Json | None:
    """Return `returnData` as JSON-RPC writes it: of the last program that set any, or None."""
    if outcome.returned is None:
        return None
    program, data = outcome.returned
    return {"programId": str(program), "data": [b64encode(data).decode(), "base64"]}


def _instruction(call: CompiledInstruction, stack_height: int) -> Json:
    return {
        "programIdIndex": call.program_id_index,
        "accounts": list(call.accounts),
        "data": b58encode(bytes(call.data)).decode(),
        "stackHeight": stack_height,
    }


def _lamports(account: Account | None) -> int:
    return 0 if account is None else account.lamports


def _token_balances(
    keys: Sequence[Pubkey],
    accounts: Mapping[Pubkey, Account | None],
    account: Callable[[Pubkey], Account | None],
) -> Iterator[Json]:
    for index, key in enumerate(keys):
        at = accounts[key]
        holding = read_holding(at)
        if at is None or holding is None:
            continue
        mint = read_mint(account(holding.mint))
        yield {
            "accountIndex": index,
            "mint": str(holding.mint),
            "owner": str(holding.owner),
            "programId": str(at.owner),
            "uiTokenAmount": ui_amount(holding.amount, 0 if mint is None else mint.decimals),
        }
