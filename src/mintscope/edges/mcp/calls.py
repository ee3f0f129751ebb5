"""A call of a tool: arguments, budget, the request to the API, and the result."""

from base64 import b64encode
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from typing import Any, Final

import msgspec
from starlette.types import Scope

from mintscope.base.limits import Limits
from mintscope.edges.mcp.arguments import Arguments, BadArguments, read_arguments
from mintscope.edges.mcp.budget import (
    HEADER,
    OverBudget,
    Reservation,
    StatedBudgets,
    UnreadableBudget,
    expect_within,
    price_of,
    read_budget,
)
from mintscope.edges.mcp.exchange import ApiAnswer, ApiExchange
from mintscope.edges.mcp.results import (
    INVALID_ARGUMENTS,
    PAYMENT,
    PAYMENTS,
    CallResult,
    failed,
    is_charged,
    over_budget,
    result_of,
)
from mintscope.edges.mcp.tools import Tool, ToolCost
from mintscope.edges.server.client_address import ClientAddresses
from mintscope.edges.server.request import ClientDisconnected
from mintscope.edges.server.response import Header

BUDGET_HEADER: Final = HEADER.lower().encode()


class ToolCalls:
    """Answers calls of tools."""

    def __init__(self, exchange: ApiExchange, limits: Limits, addresses: ClientAddresses) -> None:
        self._exchange = exchange
        self._budgets = StatedBudgets(limits)
        self._addresses = addresses

    async def call(
        self,
        tool: Tool,
        given: Mapping[str, Any],
        meta: Mapping[str, Any],
        client: Scope,
        *,
        known: Collection[str],
    ) -> CallResult:
        """Return what a call of *tool* ends with.

        given    the arguments
        known    the names of those that there are
        meta     `_meta` of the request
        client   the scope of the HTTP request
        """
        try:
            arguments = read_arguments(tool, given, known)
            payment = _payment(meta)
            is_by_credits = not payment and _has_credential(client)
            price = price_of(tool.cost, arguments, is_by_credits=is_by_credits)
            expect_within(arguments, price)
            stated = read_budget(_values(client, BUDGET_HEADER))
            call = partial(self._ask, tool, arguments, payment, client)
            if stated is None or tool.cost is ToolCost.NOTHING:
                return result_of(await call(), tool, arguments, price)
            caller = self._caller(client)
            reserved = await self._budgets.reserve(stated, price, caller=caller, payment=payment)
            return result_of(await _within(reserved, call), tool, arguments, price)
        except (BadArguments, UnreadableBudget) as flaw:
            return failed(INVALID_ARGUMENTS, f"{flaw}. Nothing was charged.")
        except OverBudget as refusal:
            return over_budget(refusal)

    async def _ask(
        self, tool: Tool, arguments: Arguments, payment: str, client: Scope
    ) -> ApiAnswer:
        headers: list[Header] = []
        if payment:
            headers.append((b"payment-signature", payment.encode()))
        if arguments.idempotency_key is not None:
            headers.append((b"idempotency-key", arguments.idempotency_key.encode()))
        return await self._exchange.ask(
            tool.method, arguments.target, client=client, headers=tuple(headers)
        )

    def _caller(self, client: Scope) -> str:
        """Return who states a budget: a credential, else an address."""
        return " ".join(_values(client, b"authorization")) or self._addresses.key(client)


async def _within(reserved: Reservation, call: Callable[[], Awaitable[ApiAnswer]]) -> ApiAnswer:
    """Return what *call* returns; what it does not charge is reserved no longer."""
    try:
        answer = await call()
    except ClientDisconnected:
        await reserved.give_back()
        raise
    if is_charged(answer):
        reserved.keep()
    else:
        await reserved.give_back()
    return answer


def _payment(meta: Mapping[str, Any]) -> str:
    """Return the payment in `_meta` as it stands in a header of HTTP, "" without one.

    The API says whether it is a good one.  Raises BadArguments for what no header can hold.
    """
    name = next((each for each in PAYMENTS if meta.get(each) is not None), PAYMENT)
    payment = meta.get(name)
    if payment is None:
        return ""
    try:
        content = payment.encode() if isinstance(payment, str) else msgspec.json.encode(payment)
    except (UnicodeEncodeError, RecursionError, TypeError) as cause:
        raise BadArguments(f"_meta[{name!r}]: expected a payment of x402 version 2") from cause
    return b64encode(content).decode()


def _has_credential(client: Scope) -> bool:
    return bool(_values(client, b"authorization"))


def _values(client: Scope, name: bytes) -> list[str]:
    """Return every value of a header of the client's request."""
    return [value.decode("latin-1") for other, value in client["headers"] if other == name]
