"""Addresses of mainnet, generated addresses that are the same in every run, and base58."""

from functools import lru_cache
from hashlib import sha256
from typing import Final

from based58 import b58decode, b58encode

SYSTEM: Final = "11111111111111111111111111111111"
COMPUTE_BUDGET: Final = "ComputeBudget111111111111111111111111111111"
SPL: Final = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA"
SPL_2022: Final = "TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb"
ASSOCIATED: Final = "ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL"
MEMO: Final = "MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr"
METAPLEX: Final = "metaqbxxUerdq28cj1RbAWkYQm3ybzjb6a8bt518x1s"
VOTE: Final = "Vote111111111111111111111111111111111111111"
RENT: Final = "SysvarRent111111111111111111111111111111111"

PUMP_FUN: Final = "6EF8rrecthR5Dkzon8Nwu78hRvfCKubJ14M5uBEwF6P"
PUMP_FUN_GLOBAL: Final = "4wTV1YmiEkRvAtNtsSGPtUrqRYQMe5SKy2uB4Jjaxnjf"
PUMP_FUN_EVENTS: Final = "Ce6TQqeHC9p8KetsN6JsjHK7UTZk7nasjjnr7XxXp9F1"
PUMP_FUN_FEES: Final = "62qc2CNXwrYqQScmEdiZFFAnJR262PxWEuNQtxfafNgV"
PUMP_SWAP: Final = "pAMMBay6oceH9fJKBRHGP5D4bD4sWpmSwMn52FMfXEA"
PUMP_SWAP_GLOBAL: Final = "ADyA8hdefvWN2dbGGWFotbzWxrAvLW83WG6QCVXvJKqw"
PUMP_SWAP_EVENTS: Final = "GS4CU59F31iL7aR2Q8zVS8DRrcRnXX1yjQ66TqNVQnaR"
PUMP_SWAP_FEES: Final = "FWsW1xNtWscwNmKv6wVsU1iTzRN6wmmk3MjxRP5tT7hz"
PUMP_FEE_PROGRAM: Final = "pfeeUxB6jkeY1Hxd7CsFCAjcbHA9rWtchMGdZ6VojVZ"
RAYDIUM_V4: Final = "675kPX9MHTjS2zt1qfr1NYHuzeLXfQM9H24wFSUt1Mp8"
RAYDIUM_V4_AUTHORITY: Final = "5Q544fKrFoe6tsEbD7S8EmxGTJYAKtTVhAW5Q5pge4j1"
RAYDIUM_CLMM: Final = "CAMMCzo5YL8w4VFF8KVHrK22GGUsp5VTaW7grrKgrWqK"
OPENBOOK: Final = "srmqPvymJeFKQ4zGQed1GFppgkRHL9kaELCbyksJtPX"
WHIRLPOOL: Final = "whirLbMiicVdio4qvUfM5KAg6Ct8VwpYzGff3uctyCc"
METEORA_DLMM: Final = "LBUZKhRxPF3XUpBCjp4YzTKgLccjZhTSDM9YuVaPwxo"
METEORA_DLMM_EVENTS: Final = "D1ZN9Wj1fRSUQfCjhvnu1hqDMT7hzjzBBpi12nVniYD6"
JUPITER: Final = "JUP6LkbZbjS1jKKwapdHNy74zcZ3tLUZoi5QNyVTaV4"
JUPITER_EVENTS: Final = "D8cy77BBepLMngZx6ZukaTff5hCt1HrWyKk3Hnd9oitf"
JITO_TIPS: Final = "96gYZGLnJYVFmbjzopPSU6QiEV5fGqZNyN9nmNhvrZU5"

READ_ONLY: Final = frozenset(
    {
        *(SYSTEM, COMPUTE_BUDGET, SPL, SPL_2022, ASSOCIATED, MEMO, VOTE, RENT),
        *(PUMP_FUN, PUMP_FUN_GLOBAL, PUMP_FUN_EVENTS, PUMP_FEE_PROGRAM),
        *(PUMP_SWAP, PUMP_SWAP_GLOBAL, PUMP_SWAP_EVENTS, PUMP_SWAP_FEES),
        *(RAYDIUM_V4, RAYDIUM_V4_AUTHORITY, RAYDIUM_CLMM, OPENBOOK),
        *(WHIRLPOOL, METEORA_DLMM, METEORA_DLMM_EVENTS, JUPITER, JUPITER_EVENTS),
    }
)
"""Accounts that no transaction of the market writes.  The mints of a `World` are read-only too."""


SHORT_MAX: Final = 64
ALPHABET: Final = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
PAIRS: Final = [first + second for first in ALPHABET for second in ALPHABET]


def address(*parts: object) -> str:
    """Return an address computed from *parts*; equal *parts* give the same address."""
    return text(sha256("/".join(map(str, parts)).encode()).digest())


def text(data: bytes) -> str:
    """Return *data* in base58."""
    return b58encode(data).decode() if len(data) <= SHORT_MAX else _in_steps(data)


def _in_steps(data: bytes) -> str:
    """Return *data* in base58, ten digits at a time, which is fast for long data."""
    steps = []
    number = int.from_bytes(data, "big")
    while number:
        number, step = divmod(number, 58**10)
        rest, last = divmod(step, 58**4)
        first, middle = divmod(rest, 58**4)
        steps.append(
            f"{PAIRS[first]}{PAIRS[middle // 58**2]}{PAIRS[middle % 58**2]}"
            f"{PAIRS[last // 58**2]}{PAIRS[last % 58**2]}"
        )
    zeros = len(data) - len(data.lstrip(b"\0"))
    return "1" * zeros + "".join(reversed(steps)).lstrip("1")


@lru_cache(maxsize=1 << 14)
def raw(public_key: str) -> bytes:
    """Return the bytes of *public_key*, which is base58: 32 for a valid key."""
    return b58decode(public_key.encode())
