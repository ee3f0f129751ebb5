"""A call: one request as data, and the type that its answer is read as."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Data = TypeVar("Data")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiCall(Generic[Data]):
    """One request.

    name          of the endpoint; calls of one name share a rate limit
    kind          what `data` of the answer is read as
    query         in the order in which it is sent
    body          JSON, or empty
    credits_max   what an answer may cost, in credits; 0 where it is free
    credits_of    what an answer has cost; by default `credits_max`
    is_purchase   it is paid for by a wallet, whatever credential there is
    takes_key     a lost answer is given again for its Idempotency-Key
    is_enveloped  the answer stands in `data` of it; else it is the whole body
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
        """Say whether an answer costs something."""
        return self.credits_max > 0 or self.is_purchase

    def cost(self, data: Data) -> int:
        """Return what *data* has cost, in credits."""
        return self.credits_max if self.credits_of is None else self.credits_of(data)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered(Generic[Data]):
    """What a call brought.

    credits_left    on the credential, if it paid
    data_slot       the last Solana slot that the data knows of
    data_age_ms     how old the data was, in milliseconds
    is_degraded     the data is older than the service calls live
    is_idle         the data is live, and the token does not trade
    request_id      what to tell the operator
    status          of HTTP
    headers         all that came, by their names in lower case
    """

    data: Data
    credits_left: int | None = None
    data_slot: int | None = None
    data_age_ms: int | None = None
    is_degraded: bool = False
    is_idle: bool = False
    request_id: str | None = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
