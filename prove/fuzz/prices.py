"""Fuzz targets for prices of SOL and payment tokens, from nodes and feeds."""

from base64 import b64encode
from typing import Final

import httpx
from solders.pubkey import Pubkey

from mintscope.kit.primitives import Mint, Wallet
from mintscope.payments.ports import ChainUnavailable
from mintscope.payments.price_sources import FeedPrice, RpcReserves, Vaults
from mintscope.payments.protocol.envelope import TOKEN_PROGRAM
from mintscope.payments.protocol.memo import UnusablePaymentToken
from mintscope.solana.blocks import WSOL
from prove.fuzz.chains import ENDPOINT
from prove.fuzz.inputs import changed_bytes, changed_json
from prove.fuzz.target import KEY, LOOP, NOW, Target

TOKEN_ACCOUNT_BYTES: Final = 165
BODY: Final = bytearray()
NODE: Final = httpx.MockTransport(lambda _: httpx.Response(200, content=bytes(BODY)))
RESERVES: Final = RpcReserves(
    ENDPOINT, base=Mint(str(WSOL)), pools=[Vaults(Wallet(KEY), Wallet(KEY))], transport=NODE
)
FEED: Final = FeedPrice("http://feed.example", transport=NODE)
READING: Final = {"price": {"price": "150", "expo": -2, "publish_time": NOW // 1000}}


def _vault(amount: int) -> dict[str, object]:
    """Return the answer to getAccountInfo for an account with *amount* lamports of wrapped SOL."""
    data = bytes(Pubkey.from_string(WSOL)) + bytes(32) + amount.to_bytes(8, "little")
    text = b64encode(data.ljust(TOKEN_ACCOUNT_BYTES, b"\0")).decode()
    value = {"owner": TOKEN_PROGRAM, "lamports": 9, "data": [text, "base64"]}
    return {"jsonrpc": "2.0", "id": 1, "result": {"context": {"slot": 7}, "value": value}}


def reserves(body: bytes) -> None:
    """Read the vaults of a pool, for the price of SOL, from a node that answers with *body*."""
    BODY[:] = body
    LOOP.run_until_complete(RESERVES.read())


def feed(body: bytes) -> None:
    """Read a price from a price feed that answers *body*; a missing price must have a reason."""
    BODY[:] = body
    LOOP.run_until_complete(FEED.read(NOW))


TARGETS: Final = {
    "pool reserves": Target(
        changed_json([_vault(amount) for amount in (0, 10**9, 2**64 - 1)]),
        reserves,
        (ChainUnavailable, UnusablePaymentToken),
    ),
    "price feed": Target(
        changed_json([{"parsed": [READING]}]) | changed_bytes([b"<html></html>"]), feed
    ),
}
