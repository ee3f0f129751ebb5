"""Fuzz targets for payments: their headers and transactions."""

import sys
from base64 import b64encode
from typing import Final

from mintscope.kit.errors import InvalidPayment
from mintscope.payments.protocol.envelope import Refused, Resource, open_envelope
from mintscope.payments.protocol.headers import decode_payment
from mintscope.payments.protocol.memo import write_memo
from mintscope.payments.protocol.verify import Asked, verify
from prove.fuzz.inputs import changed_bytes, changed_json
from prove.fuzz.target import NOW, Target
from prove.recipe import ROOT

sys.path.insert(0, str(ROOT / "tests"))
from support.scenes.payments.payment_build import TERMS, Recipe

QUOTE_KEY: Final = b"q" * 32
RESOURCE: Final = Resource("/v1/token/So11111111111111111111111111111111111111112")
AMOUNT: Final = 2_500
TREASURY: Final = TERMS.treasury
MEMO: Final = write_memo(
    QUOTE_KEY, terms=TERMS, resource=RESOURCE, amount=AMOUNT, now=NOW, nonce=b"n" * 8
)
ASKED: Final = Asked(terms=TERMS, resource=RESOURCE, amount=AMOUNT, quote_key=QUOTE_KEY, now=NOW)
PAYMENTS: Final = [
    Recipe(amount=AMOUNT, memo=MEMO.encode(), legacy=legacy).build() for legacy in (False, True)
]
HEADERS: Final = [
    {
        "x402Version": 2,
        "payload": {"transaction": b64encode(payment).decode()},
        "accepted": {
            "scheme": "exact",
            "network": TERMS.network,
            "amount": str(AMOUNT),
            "asset": TERMS.asset,
            "payTo": TERMS.pay_to,
            "maxTimeoutSeconds": 60,
            "extra": {"feePayer": TERMS.fee_payer, "memo": MEMO},
        },
        "extensions": {"payment-identifier": {"info": {"required": False, "id": "k" * 20}}},
    }
    for payment in PAYMENTS
]


def header(text: bytes) -> None:
    """Decode *text* as a payment header, and again as the content that such a header encodes."""
    decode_payment(text.decode("latin-1"))
    transaction(decode_payment(b64encode(text).decode()).transaction)


def transaction(payment: bytes) -> None:
    """Verify *payment*, the bytes of a transaction; only a valid one may be accepted."""
    envelope = open_envelope(payment)
    if not isinstance(envelope, Refused):
        passed = not isinstance(verify(envelope, ASKED), Refused)
        assert not passed or envelope.message_hash in MADE


MADE: Final = {
    opened.message_hash
    for opened in map(open_envelope, PAYMENTS)
    if not isinstance(opened, Refused)
}

TARGETS: Final = {
    "payment header": Target(changed_json(HEADERS), header, (InvalidPayment,)),
    "payment": Target(changed_bytes(PAYMENTS), transaction),
}
