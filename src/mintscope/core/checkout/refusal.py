"""Why a checkout ends without a receipt."""

from collections.abc import Sequence

import msgspec

from mintscope.base.errors import ServiceError
from mintscope.base.primitives import UnixMs
from mintscope.core.credits.sign_in import SignInFlaw
from mintscope.core.payments.outcome import AlreadyUsed, Unavailable, Unresolved
from mintscope.core.payments.protocol.refusal import Refused
from mintscope.core.payments.protocol.requirement import Requirement


class NothingPresented:
    """The client has shown neither a credit token nor a payment."""


class NothingForSale:
    """This service takes no payments."""


class NoCredits(msgspec.Struct, frozen=True):
    """The credential is valid and holds *balance* credits, too few.

    credit_count    what was asked for costs
    """

    balance: int = 0
    credit_count: int = 1


class SignInRefused(msgspec.Struct, frozen=True):
    """A wallet has signed something that proves nothing, or that has taken credits before."""

    flaw: SignInFlaw


class KeyCapped(msgspec.Struct, frozen=True):
    """The API key has spent what its owner lets it spend in a month, which ends at *until*."""

    until: UnixMs


Cause = (
    NothingPresented
    | NothingForSale
    | NoCredits
    | KeyCapped
    | SignInRefused
    | Refused
    | AlreadyUsed
    | Unresolved
    | Unavailable
)


class PaymentOption(msgspec.Struct, frozen=True, kw_only=True):
    """How the client may pay instead.

    requirements      the terms of a payment, for each token; empty: only credits are taken now
    is_for_credits    only credits are ever taken
    is_closed         sales are closed: not even credits can be bought now
    """

    requirements: Sequence[Requirement]
    is_for_credits: bool = False
    is_closed: bool = False


class CheckoutRefused(Exception):
    """Nothing was handed out, and nothing was charged unless *cause* says so.

    option       None where nothing can be bought now, and where nothing more is to be paid
    failure     why what was asked for could not have been handed out anyway
    is_ready    what was asked for can be handed out to a client that pays
    """

    def __init__(
        self,
        cause: Cause,
        *,
        option: PaymentOption | None = None,
        failure: ServiceError | None = None,
        is_ready: bool = False,
    ) -> None:
        super().__init__(type(cause).__name__)
        self.cause = cause
        self.option = option
        self.failure = failure
        self.is_ready = is_ready
