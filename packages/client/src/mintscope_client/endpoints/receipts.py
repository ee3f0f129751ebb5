"""The keys with which a service signs receipts."""

from typing import Any

import msgspec

from mintscope_client.calls.call import ApiCall


class _Key(msgspec.Struct, frozen=True, kw_only=True):
    kty: str
    crv: str
    x: str


class _Method(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    id: str
    controller: str
    public_key_jwk: _Key


class DidDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The public keys with which a service signs receipts, as in `/.well-known/did.json`.

    id                    "did:web:" and the host of the service
    verification_method   the keys, including replaced keys that are not removed yet
    """

    id: str
    verification_method: list[_Method]
    assertion_method: list[Any]

    def key_of(self, kid: str) -> str | None:
        """Return the service's Ed25519 signing key named *kid*, in base64url; None if unknown."""
        for method in self.verification_method:
            key = method.public_key_jwk
            is_named = method.id == kid and kid in self.assertion_method
            if is_named and method.controller == self.id and key.crv == "Ed25519":
                return key.x
        return None


def receipt_keys() -> ApiCall[DidDocument]:
    """Return the call for the keys that sign receipts; pass its result to `check_receipt`."""
    return ApiCall(
        name="did.json",
        method="GET",
        path="/.well-known/did.json",
        kind=DidDocument,
        is_enveloped=False,
    )
