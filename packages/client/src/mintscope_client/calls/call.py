"""A call: one request as data, and the type of its response."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Data = TypeVar("Data")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiCall(Generic[Data]):
    """One request.

    name          of the endpoint; calls of one name share a rate limit
    kind          the type that `data` of the answer is decoded to
    query         in the order in which it is sent
    body          JSON, or empty
    credits_max   the most that an answer may cost, in credits; 0 if it is free
    credits_of    returns the cost of an answer; by default `credits_max`
    is_purchase   a wallet pays for it, whatever credential there is
    takes_key     a lost answer is returned again for its Idempotency-Key
    is_enveloped  the result is in `data` of the body; else it is the whole body
    """

    name: str
    method: str
    path: str
    kind: type[Data]
    query: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    credits_max: int = 0
    credits_of: Callable[[Data], int] | None = None
    is_purchase: bool = False
    takes_key: bool = False
    is_enveloped: bool = True

    @property
    def is_charged(self) -> bool:
        """Return whether the call may cost credits."""
        return self.credits_max > 0 or self.is_purchase

    def cost(self, data: Data) -> int:
        """Return the cost of the answer *data*, in credits."""
        return self.credits_max if self.credits_of is None else self.credits_of(data)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered(Generic[Data]):
    """The answer to a call.

    credits_left    on the credential, if it paid
    data_slot       the last Solana slot in the data
    data_age_ms     age of the data, in milliseconds
    is_degraded     the data is older than the service's limit for live data
    is_idle         the data is live, and the token does not trade
    request_id      to quote to the operator
    receipt         the signed receipt of its payment, a JWS; None if it was not paid for on its own
    status          of HTTP
    headers         all headers, by name in lower case
    """

    data: Data
    credits_left: int | None = None
    data_slot: int | None = None
    data_age_ms: int | None = None
    is_degraded: bool = False
    is_idle: bool = False
    request_id: str | None = None
    receipt: str | None = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
