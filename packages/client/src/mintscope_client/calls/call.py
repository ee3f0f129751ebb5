"""A call: one request as data, and the type of its response."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Data = TypeVar("Data")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiCall(Generic[Data]):
    """One request, and how to read its answer.

    name          the name of the endpoint; calls with the same name share a rate limit
    kind          the type of the result
    query         names and values, in the order in which they are sent
    body          JSON; empty: the request has no body
    credits_max   the most credits that the answer can cost; 0 if it is free
    credits_of    a function from the data to its cost in credits; None: it costs `credits_max`
    is_purchase   whether a wallet pays for the call even if the client has a credential
    takes_key     whether the request has an `Idempotency-Key` even if the call is free: for this
                  key, the service repeats an answer that was lost
    is_enveloped  whether the result is `data` of the body; otherwise it is the whole body
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
        """Return whether this request may cost credits or a payment."""
        return self.credits_max > 0 or self.is_purchase

    def cost(self, data: Data) -> int:
        """Return the credits that this request costs if the service answered it with *data*."""
        return self.credits_max if self.credits_of is None else self.credits_of(data)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered(Generic[Data]):
    """The response to a call; None is an unknown value.

    credits_left    the number of credits left after the answer, if credits paid for it
    data_slot       the last Solana slot in the data
    data_age_ms     the age of the data, in milliseconds
    is_degraded     whether the data is older than the service's limit for live data
    is_idle         whether the data of a report is within that limit, but no swap has set a price
                    for some minutes
    request_id      the identifier of the request, for the operator
    receipt         the signed receipt of the payment for this call, a JWS; None: the answer has no
                    receipt
    status          the HTTP status
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
