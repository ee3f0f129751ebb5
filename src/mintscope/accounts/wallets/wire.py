"""Request and response bodies of the endpoints under `/v1/account`."""

from typing import Annotated, Final

import msgspec

from mintscope.accounts.keys.key import NETWORKS_MAX
from mintscope.accounts.keys.scope import Scope
from mintscope.api.wire import (
    EXAMPLE_CHALLENGE,
    EXAMPLE_SIGNATURE,
    EXAMPLE_TOKEN,
    EXAMPLE_WALLET,
    Wire,
)
from mintscope.kit.primitives import ADDRESS, ON_REQUEST, ONE_AT_LEAST, SIGNATURE, about
from mintscope.solana.blocks import USDC

CREDITS_MAX = 2**53 - 1  # up to this number, every JSON parser reads integers exactly
LIMIT_MAX = 100

Amount = Annotated[
    int,
    msgspec.Meta(
        ge=1, le=CREDITS_MAX, description="The number of credits; absent: all.", examples=[10]
    ),
]
Cap = Annotated[
    int,
    msgspec.Meta(
        ge=0,
        le=CREDITS_MAX,
        description="Credits the key may spend in a calendar month (UTC).",
        examples=[100],
    ),
]


Balance = Annotated[int, about("Credits of the account.", 40)]
KeyNumber = Annotated[int, about("The number of the key.", 3)]
MonthCap = Annotated[
    int | None,
    about("Credits it may spend in a calendar month (UTC); null: as many as there are.", 100),
]
Moved = Annotated[int, about("Credits that were moved.", 10)]
WalletText = Annotated[str, about("The wallet, base58.", EXAMPLE_WALLET, form=ADDRESS)]
CreditTokenText = Annotated[str, about("The credit token.", EXAMPLE_TOKEN)]
TransactionText = Annotated[str, about("Signature of the transaction, base58.", EXAMPLE_SIGNATURE)]
EXAMPLE_NETWORKS: Final = ["203.0.113.0/24"]
EXAMPLE_CURSOR: Final = (
    "eyJ0eXBlIjoicGF5bWVudHMiLCJiZWd1bl9hdCI6MTc2MzQ2MDAwMDAwMCwic2lnbmF0dXJlIjoiNTU1NTU1NTU1NTU1NTU1N"
    "TU1NTU1NTU1NTU1NTU1NTU1NTU1NTU1NTU1NTU1NTU1NTU1NTU1NTU1NTU1NTU1NTU1NTU1NTU1NTU1NTU1NTU1NTU1NTU1In0"
)
CursorText = Annotated[str | None, about("nextCursor of the page before.", EXAMPLE_CURSOR)]


class KeyUse(Wire):
    """An active API key: its spending of this month, and its cap."""

    key_id: KeyNumber
    name: Annotated[str, about("The name its owner gave it.", "agent")]
    hint: Annotated[str, about("Its last characters, to recognise it.", "a3f9")]
    scopes: Annotated[list[Scope], about("Its scopes.")]
    month_credits: Annotated[int, about("Credits it has spent in this month.", 12)]
    month_credits_max: MonthCap


class AccountHoldings(Wire):
    """The credits of an account, and the time when the caps of its keys reset."""

    user_id: Annotated[int, about("The number of the account.", 7)]
    username: Annotated[str, about("The name of the account.", "agent-7f3a")]
    balance: Balance
    month_ends_at: Annotated[int, about("When the month ends, Unix seconds.", 1_764_547_200)]
    keys: Annotated[list[KeyUse], about("The active keys.")]


Networks = Annotated[
    list[str],
    about("The networks that it is accepted from, in CIDR notation; empty: any.", EXAMPLE_NETWORKS),
]


class KeyLimits(Wire, forbid_unknown_fields=True):
    """Tighter limits for an API key; an absent field does not change its limit."""

    month_credits_max: Cap | msgspec.UnsetType = msgspec.UNSET
    networks: (
        Annotated[
            list[Annotated[str, msgspec.Meta(min_length=1, max_length=50)]],
            msgspec.Meta(
                min_length=1,
                max_length=NETWORKS_MAX,
                description="Addresses, or networks in CIDR notation, from which the key is"
                " accepted; each lies in one of its networks.",
                # There is no example, because a reader who copied it would lock the key out.
                extra_json_schema={ONE_AT_LEAST: True, ON_REQUEST: True},
            ),
        ]
        | msgspec.UnsetType
    ) = msgspec.UNSET


class CappedKey(Wire):
    """An API key and its limits."""

    key_id: KeyNumber
    month_credits_max: MonthCap
    networks: Networks


class DepositOrder(Wire, forbid_unknown_fields=True, kw_only=True):
    """A move of credits into the account."""

    credit_token: CreditTokenText
    credits: Amount | msgspec.UnsetType = msgspec.UNSET


class DepositReceipt(Wire):
    """A move of credits, and the balances after it."""

    credits: Moved
    balance: Balance
    token_balance: Annotated[int, about("Credits left on the credit token.", 0)]


class WithdrawalOrder(Wire, forbid_unknown_fields=True):
    """A move of credits to a new credit token."""

    credits: Amount | msgspec.UnsetType = msgspec.UNSET


class WithdrawalReceipt(Wire):
    """The credit token, its credits, and the account's new balance."""

    token: CreditTokenText
    credits: Moved
    balance: Balance


class WalletLine(Wire):
    """A linked wallet."""

    wallet: WalletText
    linked_at: Annotated[int, about("When it was linked, Unix seconds.", 1_763_460_000)]


class LinkedWallets(Wire):
    """The wallets of an account."""

    wallets: Annotated[list[WalletLine], about("The linked wallets.")]


class LinkRequest(Wire, forbid_unknown_fields=True):
    """The wallet to be linked."""

    wallet: WalletText


class LinkProof(LinkRequest):
    """The challenge, and its signature by the wallet."""

    challenge: Annotated[str, about("The text of the challenge, unchanged.", EXAMPLE_CHALLENGE)]
    signature: Annotated[str, about("Its signature, base58.", EXAMPLE_SIGNATURE, form=SIGNATURE)]


class PaymentsQuery(Wire):
    """Query of GET /v1/account/payments."""

    limit: Annotated[
        int,
        msgspec.Meta(
            ge=1, le=LIMIT_MAX, description="The maximum number of payments.", examples=[50]
        ),
    ] = 50
    cursor: CursorText = None


class PaymentLine(Wire):
    """A payment of a linked wallet."""

    signature: TransactionText
    wallet: WalletText
    resource: Annotated[
        str,
        about(
            "The purchase: path and query. If it is only /v1/token, the payment was restored, and"
            " its report or page is unknown.",
            "/v1/credits/purchase?bundle=10",
        ),
    ]
    amount: Annotated[int, about("The price, in atoms.", 25_000)]
    paid: Annotated[int, about("The amount that arrived, in atoms.", 25_000)]
    credits: Annotated[int, about("Credits that it bought; 0 if it paid for a single request.", 10)]
    state: Annotated[str, about("pending, issued, failed or frozen.", "issued")]
    reason: Annotated[str | None, about("Why it failed or is frozen.", None)]
    begun_at: Annotated[int, about("When it was sent, Unix seconds.", 1_763_460_000)]
    settled_at: Annotated[
        int | None, about("When it settled, Unix seconds; null: pending.", 1_763_460_001)
    ]
    asset: Annotated[
        str | None,
        about(
            "The mint of the token that was paid; null: the payment is older than this field.", USDC
        ),
    ]


class Payments(Wire):
    """A page of payments, newest first."""

    payments: Annotated[list[PaymentLine], about("The payments.")]
    next_cursor: Annotated[
        str | None, about("The cursor of the next page; null: there is none.", None)
    ]
