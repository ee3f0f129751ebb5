"""Runs a seller with the facilitator of the x402 package, without storage.

    POST /purchase      in the event loop, as `x402Facilitator` is intended
    POST /threads       in threads, because it blocks the event loop

`python -m bench.peers_payments.stock PORT FOLDER RPC_URL`
"""

import asyncio
import sys
import warnings
from base64 import b64decode

import uvloop
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from x402 import x402Facilitator
from x402.facilitator import x402FacilitatorSync
from x402.mechanisms.svm.exact.register import register_exact_svm_facilitator
from x402.mechanisms.svm.signers import FacilitatorKeypairSigner
from x402.schemas import PaymentPayload, PaymentRequirements

from bench.peers_payments.moments import SEED, Heart, server
from mintscope.payments.protocol.envelope import MAINNET
from mintscope_devchain.svm.genesis import Genesis

AMOUNT = "25000"


async def serve(port: int, rpc_url: str) -> None:
    genesis = Genesis(SEED)
    signer = FacilitatorKeypairSigner(genesis.fee_payer, rpc_url=rpc_url)
    asynchronous = register_exact_svm_facilitator(x402Facilitator(), signer, networks=[MAINNET])
    threaded = register_exact_svm_facilitator(x402FacilitatorSync(), signer, networks=[MAINNET])
    required = PaymentRequirements(
        scheme="exact",
        network=MAINNET,
        asset=str(genesis.mint),
        amount=AMOUNT,
        pay_to=str(genesis.treasury.pubkey()),
        max_timeout_seconds=60,
        extra={"feePayer": str(genesis.fee_payer.pubkey())},
    )

    async def purchase(request: Request) -> Response:
        payload = _payload(request)
        verified = await asynchronous.verify(payload, required)
        assert verified.is_valid, verified.invalid_reason
        settled = await asynchronous.settle(payload, required)
        assert settled.success, settled.error_reason
        return Response(settled.transaction, 201)

    async def threads(request: Request) -> Response:
        payload = _payload(request)
        verified = await asyncio.to_thread(threaded.verify, payload, required)
        assert verified.is_valid, verified.invalid_reason
        settled = await asyncio.to_thread(threaded.settle, payload, required)
        assert settled.success, settled.error_reason
        return Response(settled.transaction, 201)

    routes = [
        Route("/purchase", purchase, methods=["POST"]),
        Route("/threads", threads, methods=["POST"]),
    ]
    await server(Heart(Starlette(routes=routes)), port)


def _payload(request: Request) -> PaymentPayload:
    return PaymentPayload.model_validate_json(b64decode(request.headers["PAYMENT-SIGNATURE"]))


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # the Solana library of x402 is deprecated
    uvloop.run(serve(int(sys.argv[1]), sys.argv[3]))
