"""The seller, as programs and directories see it."""

from dataclasses import dataclass
from typing import Final

from mintscope.core.payments.pricing.price_list import BUNDLES, REQUEST_USD

TAGS: Final = ("solana", "token-analytics", "technical-indicators", "market-data", "rsi")
DESCRIPTION: Final = (
    "Real-time analytics of any Solana token that is followed here: price in USD and SOL, EMA, RSI,"
    " MACD, Fibonacci levels and buy and sell pressure from 1 minute to 1 day, computed from the"
    " swaps on chain. Paid per request by x402 or with prepaid credits, without an account. An"
    " answer of 400 or above costs nothing."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The service as the outside world knows it.

    origin      where clients reach it, `https://api.example`
    name        at most 32 ASCII characters
    contact     `mailto:` or https address of the operator, None for none
    has_pages   there are pages for people, and their icon
    """

    origin: str
    name: str = "mintscope"
    contact: str | None = None
    has_pages: bool = True
    description: str = DESCRIPTION

    @property
    def icon(self) -> str | None:
        """Where its icon is."""
        return f"{self.origin}/favicon.ico" if self.has_pages else None

    def contact_fields(self) -> dict[str, str]:
        """Return the contact as OpenAPI writes it."""
        if self.contact is None:
            return {}
        email = self.contact.removeprefix("mailto:")
        return {"email": email} if email != self.contact else {"url": self.contact}

    def guidance(self) -> str:
        """Return what an agent must know before its first call."""
        most = BUNDLES[-1]
        return (
            f"Try GET {self.origin}/v1/token/So11111111111111111111111111111111111111112 (wrapped"
            f" SOL). Without payment it answers 402 with PAYMENT-REQUIRED: sign and send it again"
            f" with PAYMENT-SIGNATURE (x402 v2, exact, Solana), {REQUEST_USD} USD a call. For many"
            f" calls buy credits once, POST /v1/credits/purchase?bundle=10 (up to {most.credits},"
            f" {most.discount_percent} % cheaper), and send Authorization: Bearer svc_credit_...;"
            " each call then takes one credit and no chain is waited for. Send an Idempotency-Key"
            " of 16 or more characters, hard to guess, with every payment, and the same key with"
            " every retry: a lost answer is given again. 503 PAYMENT_PENDING: do not pay again,"
            " send the same once more. Errors cost nothing. Prices are of one whole token, times"
            f" Unix seconds. The whole way, step by step: {self.origin}/llms.txt"
        )
