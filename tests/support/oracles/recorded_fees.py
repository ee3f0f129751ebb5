"""Corrects amounts of older recorded expectations, which include a fee that the mint withheld.

Since November 2026, the expected amount that a pool receives is the gain of its vault.  One
recorded swap of 2024, in a mint with a transfer fee, has 358,800; the balances of its vault differ
by 344,448.
"""

from decimal import Decimal
from typing import Any, Final

SIGNATURE: Final = (
    "2bhr1FWqeL28zH1BJR1h3PxkVorh5GD3koPUgzKMKFtxUKK5k3R3UraU8YRoB5yxKDi5AZafp3Xf74AXTf9LDqWc"
)
SENT, GAINED = "358800", "344448"


def with_gain(line: dict[str, Any]) -> dict[str, Any]:
    """Return the expected *line* with the gain of the vault, and the values computed from it."""
    if line["signature"] != SIGNATURE or line["in_amount"] != SENT:
        return line
    volume = Decimal(GAINED).scaleb(-line["in_decimals"])
    price = Decimal(line["quote_volume"]) / volume
    return {
        **line,
        "in_amount": GAINED,
        "base_volume": str(volume),
        "price": str(price.normalize()),
    }
