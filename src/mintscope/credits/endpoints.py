"""Numbers of the endpoints that take credits, in the rows of debits.

A number is never changed and never given again: rows are kept for months.
"""

from collections.abc import Mapping
from typing import Final

PAGE_VIEWS: Final = 0  # debits without an endpoint: views and tests on token pages

NUMBERS: Final[Mapping[str, int]] = {
    "GET /v1/token/{tokenAddress}": 1,
    "POST /v1/tokens/batch": 2,
    "GET /v1/token/{tokenAddress}/candles": 3,
    "GET /v1/token/{tokenAddress}/indicators": 4,
    "GET /v1/token/{tokenAddress}/swaps": 5,
    "GET /v1/token/{tokenAddress}/traders": 6,
    "GET /v1/token/{tokenAddress}/pools": 7,
    "GET /v1/token/{tokenAddress}/backtest": 8,
    "POST /v1/backtest": 9,
    "POST /v1/prices": 10,
    "GET /v1/screen": 11,
    "POST /v1/screen": 12,
    "GET /v1/udf/history": 13,
    "GET /v1/stream": 14,
    "GET /v1/token/{tokenAddress}/holders": 15,
}
NAMES: Final[Mapping[int, str]] = {number: name for name, number in NUMBERS.items()}
