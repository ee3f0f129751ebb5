"""Each payment has a signed receipt, which anyone can verify with /.well-known/did.json.

These tests verify receipts with the Ed25519 of another package, cryptography.
"""

import json
import runpy
import sys
from base64 import urlsafe_b64decode
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from mintscope.kit.credentials import Root
from mintscope.payments.reconciler import Secrets
from support.deployment import ROOT
from support.fakes.reports import TRACKED, UNTRACKED
from support.scenes.payments.payment_world import SECRETS, World
from support.scenes.payments.selling_api import (
    KEY,
    ORIGIN,
    PURCHASE,
    SellingApi,
    decoded,
    opened,
)
from support.scenes.service import Service, bearer

REPORT: Final = f"/v1/token/{TRACKED}"
SOLD: Final = [
    ("GET", REPORT),
    ("GET", f"{REPORT}/candles?tf=m1&limit=3"),
    ("POST", PURCHASE),
    ("POST", "/v1/credits/purchase?bundle=500"),
]
DOCUMENT: Final = "/.well-known/did.json"
HEADER_BYTES_MAX: Final = 3_500


def plain(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


def receipt_of(answer: httpx.Response) -> str:
    extension = decoded(answer, "payment-response")["extensions"]["offer-receipt"]
    assert extension["info"]["receipt"]["format"] == "jws"
    return str(extension["info"]["receipt"]["signature"])


async def checked(client: httpx.AsyncClient, receipt: str) -> dict[str, Any]:
    """Verify *receipt* with the published key that it names; return its claims."""
    head, claims, signature = receipt.split(".")
    header = json.loads(plain(head))
    assert header.keys() == {"alg", "kid"}
    assert header["alg"] == "EdDSA"
    document = (await client.get(DOCUMENT)).json()
    assert document["id"] == "did:web:shop.example"
    (method,) = [one for one in document["verificationMethod"] if one["id"] == header["kid"]]
    assert method["id"] in document["assertionMethod"]
    assert method["controller"] == document["id"]
    jwk = method["publicKeyJwk"]
    assert (jwk["kty"], jwk["crv"]) == ("OKP", "Ed25519")
    key = Ed25519PublicKey.from_public_bytes(plain(jwk["x"]))
    key.verify(plain(signature), f"{head}.{claims}".encode())
    return dict(json.loads(plain(claims)))


@pytest.mark.parametrize(("method", "path"), SOLD)
async def test_a_payment_has_a_signed_receipt(
    shop: SellingApi, world: World, method: str, path: str
) -> None:
    demand = await shop.demand(method, path)
    sent_at = world.clock.now() // 1000
    answer = await shop.send(method, path, shop.pay(demand), key=KEY)
    claims = await checked(shop.client, receipt_of(answer))

    assert answer.is_success
    # The clock of the chain advances while the request is answered.
    assert sent_at <= claims["issuedAt"] <= world.clock.now() // 1000
    assert claims == {
        "version": 1,
        "network": demand["accepts"][0]["network"],
        "resourceUrl": demand["resource"]["url"],
        "payer": str(world.buyer.pubkey()),
        "issuedAt": claims["issuedAt"],
        "transaction": decoded(answer, "payment-response")["transaction"],
    }
    # The canonical form of RFC 8785, written by another encoder.
    canonical = json.dumps(claims, sort_keys=True, separators=(",", ":"))
    assert plain(receipt_of(answer).split(".")[1]) == canonical.encode()
    lines = [f"{name}: {value}\r\n" for name, value in answer.headers.items()]
    assert sum(map(len, lines)) < HEADER_BYTES_MAX


async def test_a_top_up_of_a_credit_token_has_a_signed_receipt(shop: SellingApi) -> None:
    token = (await shop.buy()).json()["data"]["token"]
    payment = await shop.paid("POST", PURCHASE)
    answer = await shop.send("POST", PURCHASE, payment, **bearer(token))

    assert (await checked(shop.client, receipt_of(answer)))["resourceUrl"] == ORIGIN + PURCHASE


async def test_an_answer_that_is_sent_again_has_the_same_receipt(
    shop: SellingApi, world: World
) -> None:
    payment = await shop.paid("GET", REPORT)
    first = await shop.send("GET", REPORT, payment, key=KEY)
    world.clock.advance(60_000)
    again = await shop.send("GET", REPORT, payment, key=KEY)

    assert receipt_of(again) == receipt_of(first)


async def test_only_a_settled_payment_has_a_receipt(shop: SellingApi) -> None:
    token = (await shop.buy()).json()["data"]["token"]
    missing = f"/v1/token/{UNTRACKED}"
    answers = [
        await shop.client.get(REPORT),
        await shop.client.get(REPORT, headers=bearer(token)),
        await shop.send("GET", REPORT, await shop.paid("GET", REPORT, memo=b"short")),
        await shop.send("GET", missing, await shop.paid("GET", missing)),
    ]

    assert [answer.status_code for answer in answers] == [402, 200, 402, 404]
    for answer in answers:
        if "payment-response" in answer.headers:
            assert "extensions" not in decoded(answer, "payment-response")


async def test_a_receipt_with_the_claims_of_another_is_invalid(shop: SellingApi) -> None:
    head, claims, signature = receipt_of(await shop.buy()).split(".")
    other = receipt_of(await shop.send("GET", REPORT, await shop.paid("GET", REPORT)))

    await checked(shop.client, f"{head}.{claims}.{signature}")
    with pytest.raises(InvalidSignature):
        await checked(shop.client, f"{head}.{other.split('.')[1]}.{signature}")


async def test_a_receipt_is_valid_after_its_root_secret_was_replaced(world: World) -> None:
    async with opened(world) as shop:
        old = receipt_of(await shop.buy())
        assert len((await shop.client.get(DOCUMENT)).json()["verificationMethod"]) == 1
    root = Root(world.clock.now() // 1000, sha256(b"a new root").digest())
    rotated = Secrets.derive(SECRETS.pepper, [root])
    async with opened(world, secrets=rotated) as shop:
        document = await shop.client.get(DOCUMENT)
        new = receipt_of(await shop.buy(key=KEY[::-1]))

        assert document.headers["content-type"] == "application/did+json"
        assert len(document.json()["verificationMethod"]) == 2
        assert new.split(".")[0] != old.split(".")[0]
        for receipt in (old, new):
            assert (await checked(shop.client, receipt))["version"] == 1


async def test_the_documented_program_verifies_a_receipt(
    shop: SellingApi,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    answer = await shop.send("GET", REPORT, await shop.paid("GET", REPORT))
    document = (await shop.client.get(DOCUMENT)).text
    text = (ROOT / "docs" / "api" / "payments.md").read_text().partition("## Signed receipts")[2]
    program = tmp_path / "program.py"
    program.write_text(text.partition("```python\n")[2].partition("```")[0])
    monkeypatch.setattr(sys, "argv", ["", answer.headers["payment-response"], document])
    capsys.readouterr()
    runpy.run_path(str(program))

    assert capsys.readouterr().out == f"{ORIGIN}{REPORT}\n"


async def test_the_identifier_of_the_service_includes_its_port(world: World) -> None:
    async with opened(world, origin="http://127.0.0.1:8402") as shop:
        document = (await shop.client.get(DOCUMENT)).json()

    assert document["id"] == "did:web:127.0.0.1%3A8402"
    assert document["assertionMethod"][0].startswith("did:web:127.0.0.1%3A8402#")


async def test_the_did_document_is_404_if_nothing_is_sold(service: Service) -> None:
    assert (await service.client.get(DOCUMENT)).status_code == 404
