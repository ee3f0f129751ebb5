"""Settings of credits and payments."""

from decimal import Decimal
from typing import Literal

from pydantic import Field

from mintscope.base.solana import LAMPORTS_PER_SOL, USDC
from mintscope.core.payments.pricing.price_list import FEE_SHARE_MAX
from mintscope.core.payments.protocol.requirement import MAINNET, TOKEN_PROGRAM
from mintscope.core.payments.store import Budget
from mintscope.shell.config.sections.section import Section
from mintscope.shell.config.values import (
    Address,
    Count,
    Decimals,
    File,
    Key,
    Lamports,
    OptionalAddress,
    OptionalUrl,
    Pepper,
    Pools,
    Share,
    TokenProgram,
    Usd,
)


class CreditsConfig(Section):
    """Prepaid credits."""

    pepper: Pepper = Field(
        default=None,
        description="Key of the hashes that credit tokens, application secrets and API keys are"
        " stored as, at least 64 hexadecimal digits. Unset: kept in the file `pepper` of data_dir,"
        " made at first use. BACK IT UP: without it all of them are void.",
    )


class PaymentsConfig(Section):
    """Sales for x402 payments on Solana: single requests and bundles of credits."""

    enabled: bool = Field(
        default=False,
        description="Whether requests and credits are sold; payments settle through chain.rpc_url.",
    )
    network: str = Field(
        default=MAINNET,
        pattern=r"^solana:[1-9A-HJ-NP-Za-km-z]{32}$",
        description="The chain, in CAIP-2, as it stands in a 402 response.",
    )
    asset: Address = Field(
        default=USDC, description="The payment token: its mint. Followed on a new installation."
    )
    asset_name: str = Field(
        default="USD Coin", min_length=1, max_length=64, description="Its name, for clients."
    )
    asset_symbol: str = Field(
        default="USDC", min_length=1, max_length=16, description="Its symbol, for clients."
    )
    decimals: Decimals = Field(default=6, description="Its decimals; compared with the mint.")
    token_program: TokenProgram = Field(
        default=TOKEN_PROGRAM, description="The program that owns the mint; compared with the mint."
    )
    pay_to: OptionalAddress = Field(
        default=None,
        description="The treasury: the wallet that is paid. Its token account must exist; its key"
        " does not belong on this machine.",
    )
    fee_payer_file: File = Field(
        default=None,
        description="The Solana keypair file of the wallet that pays the network fees, about"
        " 10,001 lamports a payment. A hot key: keep little on it, and no tokens.",
    )
    fee_payer_key: Key = Field(
        default=None,
        description="The same key instead of a file: the content of the file, or base58.",
    )
    fee_payer_lamports_min: Lamports = Field(
        default=LAMPORTS_PER_SOL // 10,
        description="The doctor and the log warn when the fee payer has less.",
    )
    price_source: Literal["pinned", "market", "feed"] = Field(
        default="pinned",
        description="What the payment token is worth: payments.price_usd; its own market as"
        " followed here; or a feed.",
    )
    price_usd: Usd = Field(
        default=Decimal(1), description="The pinned price of one whole token, in USD."
    )
    price_feed_url: OptionalUrl = Field(
        default=None,
        description="A feed that answers as Pyth's Hermes does: /v2/updates/price/latest of one"
        " price id.",
    )
    pools: Pools = Field(
        default=(),
        description="The token's pools, whose reserves a market price needs: `vault of the token:"
        "vault of what it is traded for`, SOL, USDC or USDT.",
    )
    fee_share_max: Share = Field(
        default=FEE_SHARE_MAX,
        description="The share of a single request's price that the network fee of its payment may"
        " eat, at the price of SOL followed here; beyond, only bundles are sold. 1 is break-even,"
        " at 250 USD for a SOL; 0.5 is reached at 125.",
    )
    failures_per_hour_max: Count = Field(
        default=Budget().failures,
        description="Payments that may fail on chain within the hour, per payer; per client"
        " address, which may stand for many payers, more than those that succeeded.",
    )
    in_flight_per_payer_max: Count = Field(
        default=Budget().in_flight_payer,
        description="Payments under way or failed, of a payer that has bought nothing within the"
        " hour; one more for each payment of it that was good.",
    )
    in_flight_per_address_max: Count = Field(
        default=Budget().in_flight_address,
        description="The same, per client address, which may stand for many payers.",
    )
    fees_per_hour_lamports: Lamports = Field(
        default=Budget().fee_lamports,
        description="Network fees of payments that failed on chain; beyond, nothing is sold. One"
        " payer or client address may put a tenth of them at risk, with payments under way.",
    )
    fees_in_flight_lamports: Lamports = Field(
        default=Budget().in_flight_fee_lamports,
        description="Network fees of payments under way, never more than the fee payer has. Who has"
        " bought nothing within 24 hours shares half of them; beyond, nothing is sold.",
    )
