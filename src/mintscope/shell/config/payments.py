"""The configuration of sales."""

from decimal import Decimal
from typing import Literal

from pydantic import Field

from mintscope.base.solana import LAMPORTS_PER_SOL, USDC
from mintscope.core.payments.pricing.price_list import FEE_SHARE_MAX
from mintscope.core.payments.protocol.requirement import MAINNET, TOKEN_PROGRAM
from mintscope.core.payments.store import Budget
from mintscope.shell.config import values
from mintscope.shell.config.sections import Section


class PaymentsConfig(Section):
    """Sales for x402 payments on Solana: single requests and bundles of credits."""

    enabled: bool = False
    """Whether requests and credits are sold; payments settle through chain.rpc_url."""
    network: str = Field(default=MAINNET, pattern=r"^solana:[1-9A-HJ-NP-Za-km-z]{32}$")
    """The chain, in CAIP-2, as it stands in a 402 response."""
    asset: values.Address = USDC
    """The payment token: its mint. Followed on a new installation."""
    asset_name: str = Field(default="USD Coin", min_length=1, max_length=64)
    """Its name, for clients."""
    asset_symbol: str = Field(default="USDC", min_length=1, max_length=16)
    """Its symbol, for clients."""
    decimals: values.Decimals = 6
    """Its decimals; compared with the mint."""
    token_program: values.TokenProgram = TOKEN_PROGRAM
    """The program that owns the mint; compared with the mint."""
    pay_to: values.OptionalAddress = None
    """The treasury: the wallet that is paid. Its token account must exist; its key does not belong
    on this machine."""
    fee_payer_file: values.File = None
    """The Solana keypair file of the wallet that pays the network fees, about 10,001 lamports a
    payment. A hot key: keep little on it, and no tokens."""
    fee_payer_key: values.Key = None
    """The same key instead of a file: the content of the file, or base58."""
    fee_payer_lamports_min: values.Lamports = LAMPORTS_PER_SOL // 10
    """The doctor and the log warn when the fee payer has less."""
    failed_trials_per_minute_max: values.Count = 1_200
    """Payments that fail before they are sent, and payments that are written out for wallets, of
    all clients together in any 60 seconds; each asks the node up to four questions, and up to 14
    if the node does not know its blockhash. A tenth of it is the most of one network, a quarter is
    kept for wallets and addresses that have paid before and a quarter for clients that come for
    the first time. Beyond it payments are answered 503."""
    price_source: Literal["pinned", "market", "feed"] = "pinned"
    """The price of the payment token: payments.price_usd; its own market as followed here; or a
    feed."""
    price_usd: values.Usd = Decimal(1)
    """The pinned price of one whole token, in USD."""
    price_feed_url: values.OptionalUrl = None
    """A feed that answers as Pyth's Hermes does: /v2/updates/price/latest of one price id."""
    price_feed_url_file: values.File = None
    """The file that holds price_feed_url instead."""
    also_usdc: bool = False
    """Whether USDC is taken beside the payment token, at 1 USD by definition: what a client pays
    with is its choice. The treasury's token account for USDC must exist."""
    usdc_mint: values.Address = USDC
    """The mint of USDC on the chain of payments: another one on devnet."""
    pools: values.Pools = ()
    """The token's pools, whose reserves a market price needs: `vault of the token:vault of what it
    is traded for`, SOL or one of `market.dollars`."""
    fee_share_max: values.Share = FEE_SHARE_MAX
    """The share of a single request's price that the network fee of its payment may eat, at the
    price of SOL followed here; beyond, only bundles are sold. 1 is break-even, at 250 USD for a
    SOL; 0.5 is reached at 125."""
    failures_per_hour_max: values.Count = Budget().failures
    """Payments that may fail on chain within the hour, per payer; per client address, which may
    stand for many payers, more than those that succeeded."""
    in_flight_per_new_payer_max: values.Count = Budget().in_flight_new_payer
    """Payments under way of a payer that has bought nothing within 24 hours."""
    in_flight_per_payer_max: values.Count = Budget().in_flight_payer
    """Payments under way or failed, of a payer that has bought nothing within the hour; one more
    for each payment of it that was good."""
    in_flight_per_address_max: values.Count = Budget().in_flight_address
    """The same, per client address, which may stand for many payers."""
    fees_per_hour_lamports: values.Lamports = Budget().fee_lamports
    """Network fees of payments that failed on chain within the hour; beyond, nothing is sold.
    Payers whose payments fail more often than they were good within 24 hours share half of them.
    One payer or client address may put a tenth of them at risk, with payments under way."""
    fees_in_flight_lamports: values.Lamports = Budget().in_flight_fee_lamports
    """Network fees of payments under way, never more than the fee payer has. Payers that
    bought nothing within 24 hours share half of them; beyond, nothing is sold."""
