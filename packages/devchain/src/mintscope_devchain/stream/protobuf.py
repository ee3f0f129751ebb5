"""Converts transactions from the JSON of getBlock to messages of a Yellowstone stream."""

from collections.abc import Mapping
from typing import Any

from based58 import b58decode

from mintscope.solana.yellowstone import geyser_pb2, solana_storage_pb2


def to_protobuf(entry: Mapping[str, Any], index: int) -> geyser_pb2.SubscribeUpdateTransactionInfo:
    """Return *entry*, a transaction in the JSON of getBlock, as a Yellowstone message.

    index   the index of the transaction in its block
    """
    signed = entry["transaction"]
    meta = entry["meta"]
    message = signed["message"]
    info = geyser_pb2.SubscribeUpdateTransactionInfo(
        index=index, signature=key_bytes(signed["signatures"][0])
    )
    made = info.transaction.message
    made.header.num_required_signatures = message.get("header", {}).get("numRequiredSignatures", 1)
    made.account_keys.extend(map(key_bytes, message["accountKeys"]))
    for call in message["instructions"]:
        made.instructions.add(
            program_id_index=call["programIdIndex"],
            accounts=bytes(call["accounts"]),
            data=key_bytes(call["data"]),
        )
    _fill(info.meta, meta)
    return info


def _fill(made: solana_storage_pb2.TransactionStatusMeta, meta: Mapping[str, Any]) -> None:
    if meta["err"] is not None:
        # Any bytes: our reader only checks whether there is an error.
        made.err.err = b"\x08"
    inner = meta["innerInstructions"]
    made.inner_instructions_none = inner is None
    for group in inner or ():
        calls = made.inner_instructions.add(index=group["index"]).instructions
        for call in group["instructions"]:
            calls.add(
                program_id_index=call["programIdIndex"],
                accounts=bytes(call["accounts"]),
                data=key_bytes(call["data"]),
                stack_height=call.get("stackHeight"),
            )
    loaded = meta.get("loadedAddresses") or {"writable": [], "readonly": []}
    made.loaded_writable_addresses.extend(map(key_bytes, loaded["writable"]))
    made.loaded_readonly_addresses.extend(map(key_bytes, loaded["readonly"]))
    made.pre_balances.extend(meta.get("preBalances") or ())
    made.post_balances.extend(meta.get("postBalances") or ())
    both = (
        (made.pre_token_balances, meta.get("preTokenBalances")),
        (made.post_token_balances, meta.get("postTokenBalances")),
    )
    for balances, listed in both:
        for one in listed or ():
            amount = one["uiTokenAmount"]
            balances.add(
                account_index=one["accountIndex"],
                mint=one["mint"],
                owner=one.get("owner"),
                ui_token_amount=solana_storage_pb2.UiTokenAmount(
                    amount=amount["amount"], decimals=amount["decimals"]
                ),
            )


def key_bytes(text: object) -> bytes:
    """Return the bytes that *text*, a base58 address or signature, encodes."""
    return b58decode(str(text).encode())
