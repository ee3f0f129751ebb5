"""A shop with only the two paid routes, over HTTP."""

from collections.abc import Mapping
from typing import Any, Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mintscope.kit.errors import InvalidPayment
from mintscope.payments.facilitator import Credits, Demand, Facilitator, VerifiedPayment, Wanted
from mintscope.payments.payment import PaidReport
from mintscope.payments.ports import AlreadyUsed, Outcome, Settled, Unavailable, Unresolved
from mintscope.payments.protocol.envelope import Refused, Resource
from mintscope.payments.protocol.headers import (
    PAYMENT_REQUIRED,
    PAYMENT_RESPONSE,
    PAYMENT_SIGNATURE,
    decode_payment,
    encode_refused,
    encode_required,
    encode_settled,
)

REQUEST_ATOMS: Final = 2_500
CREDIT_ATOMS: Final = 2_250


class Shop:
    """A shop that sells reports at 2,500 atoms and credits at 2,250 atoms each."""

    def __init__(self, facilitator: Facilitator) -> None:
        self._facilitator = facilitator
        self.app = Starlette(
            routes=[
                Route("/v1/token/{mint}", self._token, methods=["GET"]),
                Route("/v1/credits/purchase", self._purchase, methods=["POST"]),
            ]
        )

    async def _token(self, request: Request) -> Response:
        resource = Resource(request.url.path)
        return await self._sell(request, resource, REQUEST_ATOMS, PaidReport(body=b'{"price":1}'))

    async def _purchase(self, request: Request) -> Response:
        count = int(request.query_params["bundle"])
        resource = Resource(f"{request.url.path}?bundle={count}")
        return await self._sell(request, resource, CREDIT_ATOMS * count, Credits(count))

    async def _sell(
        self, request: Request, resource: Resource, amount: int, wanted: Wanted
    ) -> Response:
        header = request.headers.get(PAYMENT_SIGNATURE)
        if header is None:
            return self._demand(resource, amount, "PAYMENT_REQUIRED", {})
        try:
            presented = decode_payment(header)
        except InvalidPayment as error:
            return _failure(400, "INVALID_PAYMENT", str(error))
        key = request.headers.get("Idempotency-Key", presented.identifier)
        demand = Demand(resource=resource, key=key, address="192.0.2.1")
        answer = await self._facilitator.present(presented, demand)
        outcome = await answer.settle(wanted) if isinstance(answer, VerifiedPayment) else answer
        return self._respond(outcome, resource, amount)

    def _respond(self, outcome: Outcome, resource: Resource, amount: int) -> Response:
        terms = self._facilitator.terms
        match outcome:
            case Settled(payment=payment, token=token):
                receipt = encode_settled(terms, payer=payment.payer, signature=payment.signature)
                headers = {PAYMENT_RESPONSE: receipt}
                if isinstance(payment.purchase, PaidReport):
                    return Response(b'{"data":' + payment.purchase.body + b"}", 200, headers)
                data = {
                    "token": token,
                    "credits": payment.purchase.credits,
                    "pricePaid": payment.paid,
                }
                return JSONResponse({"success": True, "data": data}, 201, headers)
            case Refused(reason=reason, signature=signature):
                receipt = encode_refused(terms, reason=reason, signature=signature)
                return self._demand(resource, amount, str(reason), {PAYMENT_RESPONSE: receipt})
            case AlreadyUsed():
                return _failure(409, "PAYMENT_ALREADY_USED", "")
            case Unresolved(key=key):
                again = {} if key is None else {"Idempotency-Key": key}
                return _failure(503, "PAYMENT_PENDING", "", {"Retry-After": "2", **again})
            case Unavailable():
                return _failure(503, "PAYMENT_UNAVAILABLE", "")

    def _demand(
        self, resource: Resource, amount: int, error: str, headers: Mapping[str, str]
    ) -> Response:
        requirement = self._facilitator.require(resource, amount)
        demand = encode_required(requirement, origin="https://shop.example", error=error)
        return _failure(402, "PAYMENT_FAILED", error, {PAYMENT_REQUIRED: demand, **headers})


def _failure(
    status: int, code: str, message: str, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    body: dict[str, Any] = {"success": False, "error": {"code": code, "message": message}}
    return JSONResponse(body, status, dict(headers or {}))
