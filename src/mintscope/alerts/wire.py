"""Request and response bodies of the endpoints under `/v1/signals`."""

from typing import Annotated, Final, Literal, TypeAlias, cast

import msgspec
from msgspec import UNSET, UnsetType

from mintscope.alerts.alert import Fires, FiringKind
from mintscope.alerts.conditions import FIELDS, Direction, SignalKind
from mintscope.alerts.emails import (
    MESSAGE_LENGTH_MAX,
    NAME_LENGTH_MAX,
    PERCENT_MAX,
    PERCENT_MIN,
    WINDOW_S_MAX,
    WINDOW_S_MIN,
)
from mintscope.api.wire import Wire
from mintscope.kit.primitives import ADDRESS, INSTEAD_OF, PRINTABLE, about
from mintscope.market.screening.grammar import TEXT_MAX
from mintscope.market.standings import Confidence
from mintscope.solana.blocks import WSOL

EXAMPLE_URL = "https://example.org/hooks/mintscope"
WEBHOOK_URL: Final = "webhook-url"
MESSAGE_PATTERN: Final = r"^(?:[^\p{C}\p{Z}]| )*$"
TIME_MAX: Final = 253_402_300_799  # the end of the year 9999, Unix seconds
EXAMPLE_CURSOR = "eyJ0eXBlIjoic2lnbmFsIGV2ZW50cyIsImV2ZW50X2lkIjo0MX0"
LIMIT_MAX = 100
Name = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=NAME_LENGTH_MAX,
        description="The name of the alert, in printable characters; names may repeat.",
        examples=["SOL above 200"],
        extra_json_schema={"pattern": PRINTABLE},
    ),
]
MintText = Annotated[str, about("The token, base58.", WSOL)]
NewMint = Annotated[str, about("The token, base58.", WSOL, form=ADDRESS)]
FieldText = Annotated[
    str,
    about(
        "The report field that is evaluated, as a path under `price` or `indicators`, such as"
        " `indicators.h1.rsi`.",
        "price.usd",
    ),
]
NewField = Annotated[FieldText, msgspec.Meta(extra_json_schema={"enum": sorted(FIELDS)})]
Kind = Annotated[SignalKind, about("The kind of crossing.", "above")]
URL = about(
    "The address to which firings are sent: https, public, 500 characters at most, port 443 or"
    " 1024 to 65535; null: no webhook.",
    EXAMPLE_URL,
)
NewUrl = Annotated[
    Annotated[str, msgspec.Meta(extra_json_schema={"format": WEBHOOK_URL})] | None, URL
]
LEVEL = about("The level that the number is compared with, in the unit of the field.", 200.0)
MARGIN = about("How far the number must move back before the alert can fire again.", 1.0)
PERCENT = about("Percent, 0.1 to 10,000; only with changes_by.", None)
WINDOW = about("Seconds, whole minutes, a day at most; only with changes_by.", None)
NotNegative = Annotated[float, msgspec.Meta(ge=0)]
NewPercent = Annotated[
    float,
    msgspec.Meta(
        ge=PERCENT_MIN,
        le=PERCENT_MAX,
        description="How far the number must be from the lowest or highest of the window.",
        examples=[5.0],
    ),
]
NewWindow = Annotated[
    int,
    msgspec.Meta(
        ge=WINDOW_S_MIN,
        le=WINDOW_S_MAX,
        multiple_of=WINDOW_S_MIN,
        description="How far back the alert looks: whole minutes, in seconds.",
        examples=[3600],
    ),
]
NOT_WITH_LEVEL: Final = msgspec.Meta(extra_json_schema={INSTEAD_OF: "level"})
NOT_WITH_MARGIN: Final = msgspec.Meta(extra_json_schema={INSTEAD_OF: "margin"})
NotOfLevels = Annotated[None, about("Only used with changes_by.", None)]
NotOfMoves = Annotated[None, about("Not used with changes_by.", None)]
CANDLES = about(
    "all: evaluated after each slot in which the token is traded. closed: as each minute ends,"
    " without open candles, so that no value changes later.",
    "closed",
)
Candles = Literal["all", "closed"]
LEAST = about(
    "Reports with a lower price.confidence are not evaluated; low: all reports are evaluated. For"
    " price.liquidityUsd and price.rejectedShareH1, all reports are evaluated.",
    "medium",
)
EMAIL = about(
    "Whether firings are sent by e-mail: one e-mail every 5 minutes, 20 of an alert and 50 of an"
    " account in 24 hours at most. Events state which firings are in no e-mail, and the reason.",
    False,  # noqa: FBT003
)
TELEGRAM = about(
    "Whether firings are sent to the Telegram chat of the account: one message a minute at most.",
    False,  # noqa: FBT003
)
FIRES = about(
    "once: at the first crossing; then the alert is inactive until isActive is set again. hourly:"
    " at the first crossing in any hour. each: at every crossing; 30 in an hour at most are sent.",
    "once",
)
COMPARED = about(
    "Only with crosses_field: the other number of the report, of the same unit, as"
    " `indicators.h1.ema200` of `price.usd`.",
    None,
)
DIRECTION = about(
    ("Only with crosses_field: up or down, the direction in which it must cross; null: either."),
    None,
)
MESSAGE = about(
    "A text of your own, for the e-mails and webhooks of the alert; empty: none.", "Sell half."
)
NewMessage = Annotated[
    str,
    MESSAGE,
    msgspec.Meta(max_length=MESSAGE_LENGTH_MAX, extra_json_schema={"pattern": MESSAGE_PATTERN}),
]
EXPIRES = about("When the alert ends, Unix seconds; null: never.", None)
NewExpiry = Annotated[int, msgspec.Meta(ge=0, le=TIME_MAX)]
NotOfFields = Annotated[None, about("Only used with crosses_field.", None)]


class SignalLine(Wire):
    """An alert."""

    signal_id: Annotated[int, about("The number of the alert.", 7)]
    name: Annotated[str, about("The name that its owner gave it.", "SOL above 200")]
    mint: MintText
    field: FieldText
    kind: Kind
    level: Annotated[float | None, LEVEL]
    margin: Annotated[float | None, MARGIN]
    percent: Annotated[float | None, PERCENT]
    window_s: Annotated[int | None, WINDOW]
    candles: Annotated[Candles, CANDLES]
    least_confidence: Annotated[Confidence, LEAST]
    webhook_url: Annotated[str | None, URL]
    email: Annotated[bool, EMAIL]
    telegram: Annotated[bool, TELEGRAM]
    fires: Annotated[Fires, FIRES]
    compared_with: Annotated[str | None, COMPARED]
    direction: Annotated[Direction | None, DIRECTION]
    message: Annotated[str, MESSAGE]
    expires_at: Annotated[int | None, EXPIRES]
    ended_at: Annotated[
        int | None,
        about(
            (
                "When the alert ended, because it fired once or expired, Unix seconds; null: it has"
                " not ended."
            ),
            None,
        ),
    ]
    is_active: Annotated[bool, about("Whether the alert is evaluated.", True)]  # noqa: FBT003
    created_at: Annotated[int, about("When the alert was created, Unix seconds.", 1_763_460_000)]
    fired_at: Annotated[int | None, about("When it last fired, Unix seconds; null: never.", None)]
    webhook_disabled_at: Annotated[
        int | None,
        about("When the webhook was disabled, Unix seconds; null: it is not disabled.", None),
    ]


class MadeSignal(SignalLine):
    """An alert and the secret of its webhook."""

    webhook_secret: Annotated[
        str,
        about(
            "The secret that signs the webhooks of the alert, HMAC-SHA256; keep it.",
            "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwQm2kF7ZmNYY=",
        ),
    ]


class SignalList(Wire):
    """The alerts of an account."""

    signals: Annotated[list[SignalLine], about("In the order in which they were created.")]


class SignalCommon(Wire, forbid_unknown_fields=True, kw_only=True):
    """The fields of every new alert."""

    name: Name
    mint: NewMint
    candles: Annotated[Candles, CANDLES] = "all"
    least_confidence: Annotated[Confidence, LEAST] = Confidence.MEDIUM
    webhook_url: NewUrl = None
    email: Annotated[bool, EMAIL] = False
    telegram: Annotated[bool, TELEGRAM] = False
    fires: Annotated[Fires, FIRES] = Fires.EACH
    message: NewMessage = ""
    expires_at: Annotated[NewExpiry | None, EXPIRES] = None


class SignalBasis(SignalCommon, kw_only=True):
    """The fields of a new alert about one number of a report."""

    field: NewField


class LevelSignal(SignalBasis, kw_only=True):
    """The fields of an alert with a level."""

    level: Annotated[float, LEVEL]
    margin: Annotated[NotNegative | None, MARGIN] = None
    percent: NotOfLevels = None
    window_s: NotOfLevels = None
    compared_with: NotOfFields = None
    direction: NotOfFields = None


class AboveSignal(LevelSignal, tag_field="kind", tag=SignalKind.ABOVE.value):
    """Fires when the number rises above the level."""


class BelowSignal(LevelSignal, tag_field="kind", tag=SignalKind.BELOW.value):
    """Fires when the number falls below the level."""


class CrossesSignal(LevelSignal, tag_field="kind", tag=SignalKind.CROSSES.value):
    """Fires when the number crosses the level."""


class MoveSignal(SignalBasis, kw_only=True, tag_field="kind", tag=SignalKind.CHANGES_BY.value):
    """Fires when the number has changed by the given percentage within the window."""

    percent: NewPercent
    window_s: NewWindow
    level: NotOfMoves = None
    margin: NotOfMoves = None
    compared_with: NotOfFields = None
    direction: NotOfFields = None


class FieldSignal(SignalBasis, kw_only=True, tag_field="kind", tag=SignalKind.CROSSES_FIELD.value):
    """Fires when the number crosses another number of the report."""

    compared_with: Annotated[
        str, COMPARED, msgspec.Meta(extra_json_schema={"enum": sorted(FIELDS)})
    ]
    direction: Annotated[Direction | None, DIRECTION] = None
    margin: Annotated[NotNegative | None, MARGIN] = None
    level: NotOfLevels = None
    percent: NotOfLevels = None
    window_s: NotOfLevels = None


class ConditionSignal(SignalCommon, kw_only=True, tag_field="kind", tag="condition"):
    """Fires when a condition of screens becomes true: one comparison, or one crossing.

    It is stored as an equivalent alert of kind above, below or crosses_field.
    """

    where: Annotated[
        str,
        msgspec.Meta(
            min_length=1,
            max_length=TEXT_MAX,
            description="The condition, as screens and backtests take it: one comparison of a field"
            " of reports with a number or with another such field, or one crossing.",
            examples=["crosses_below(rsi_h1, 30)"],
        ),
    ]


NewSignal: TypeAlias = (
    AboveSignal | BelowSignal | CrossesSignal | MoveSignal | FieldSignal | ConditionSignal
)
NEW_SIGNAL: Final = cast("type[NewSignal]", NewSignal)  # distinguished by `kind`


class ChangedSignal(Wire, forbid_unknown_fields=True):
    """Changes to an alert; absent fields stay as they are."""

    name: Name | UnsetType = UNSET
    level: Annotated[float, LEVEL] | UnsetType = UNSET
    margin: Annotated[NotNegative, MARGIN] | UnsetType = UNSET
    percent: Annotated[NewPercent, NOT_WITH_LEVEL] | UnsetType = UNSET
    window_s: Annotated[NewWindow, NOT_WITH_MARGIN] | UnsetType = UNSET
    candles: Annotated[Candles, CANDLES] | UnsetType = UNSET
    least_confidence: Annotated[Confidence, LEAST] | UnsetType = UNSET
    webhook_url: NewUrl | UnsetType = UNSET
    email: Annotated[bool, EMAIL] | UnsetType = UNSET
    telegram: Annotated[bool, TELEGRAM] | UnsetType = UNSET
    fires: Annotated[Fires, FIRES] | UnsetType = UNSET
    message: NewMessage | UnsetType = UNSET
    expires_at: Annotated[NewExpiry | None, EXPIRES] | UnsetType = UNSET
    is_active: Annotated[bool, about("Whether the alert is evaluated.", True)] | UnsetType = UNSET  # noqa: FBT003


class WebhookState(Wire):
    """The delivery of a firing by webhook."""

    state: Annotated[str, about("waiting, delivered or given_up.", "delivered")]
    attempts: Annotated[int, about("How often it was sent.", 1)]
    next_attempt_at: Annotated[
        int | None, about("When it is sent next, Unix seconds; null: it is not sent again.", None)
    ]
    delivered_at: Annotated[
        int | None,
        about("When it was accepted, Unix seconds; null: it was not accepted.", 1_763_460_001),
    ]
    reason: Annotated[str | None, about("Why the last attempt failed.", None)]


class EmailOutcome(Wire):
    """The delivery of the e-mail about a firing."""

    state: Annotated[
        str,
        about("waiting, sent, given_up, or not_sent (a limit was reached).", "sent"),
    ]
    sent_at: Annotated[
        int | None,
        about("When it was accepted, Unix seconds; null: it was not accepted.", 1_763_460_001),
    ]
    reason: Annotated[
        str | None, about(("The reason why it was not sent, such as `limit of 50 reached`."), None)
    ]


class TelegramOutcome(Wire):
    """The delivery of a firing to the account's Telegram chat."""

    state: Annotated[str, about("waiting, sent or not_sent.", "sent")]
    sent_at: Annotated[
        int | None,
        about("When Telegram accepted it, Unix seconds; null: it did not.", 1_763_460_001),
    ]
    reason: Annotated[str | None, about("Why the last attempt failed.", None)]


class EventLine(Wire):
    """A firing of an alert."""

    event_id: Annotated[int, about("Its number; its `webhook-id` is msg_ and this number.", 41)]
    kind: Annotated[
        FiringKind, about("`test` if the owner of the alert requested a test.", "fired")
    ]
    value: Annotated[float, about("The number in the report that fired it.", 200.3)]
    direction: Annotated[Direction, about("The direction in which the number crossed.", "up")]
    reference: Annotated[
        float, about("The level; for changes_by, the number from which it has changed.", 200.0)
    ]
    slot: Annotated[int, about("The slot of the report; 0 of a test.", 380_000_000)]
    time: Annotated[int, about("The block time of the slot, Unix seconds.", 1_763_460_000)]
    fired_at: Annotated[
        int, about("When the service noticed the crossing, Unix seconds.", 1_763_460_000)
    ]
    webhook: Annotated[
        WebhookState | None, about("The state of the webhook; null: the alert had no webhook.")
    ]
    email: Annotated[
        EmailOutcome | None,
        about("Whether an e-mail reports the firing; null: the alert sent no e-mails."),
    ]
    telegram: Annotated[
        TelegramOutcome | None,
        about("Whether Telegram accepted it; null: it was not sent to Telegram."),
    ]


class Events(Wire):
    """A page of events, newest first."""

    events: Annotated[list[EventLine], about("The events.")]
    next_cursor: Annotated[
        str | None, about("The cursor of the next page; null: there is none.", None)
    ]


class EventsQuery(Wire):
    """Query of GET /v1/signals/{signalId}/events."""

    limit: Annotated[
        int,
        msgspec.Meta(ge=1, le=LIMIT_MAX, description="How many events at most.", examples=[50]),
    ] = 50
    cursor: Annotated[str | None, about("nextCursor of the page before.", EXAMPLE_CURSOR)] = None


class EventPosition(msgspec.Struct, tag="signal events"):
    """The position of the last event of a page, as a cursor to the next page."""

    event_id: int
