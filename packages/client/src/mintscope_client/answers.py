"""Decodes what a buyer needs from the response of a seller, which may contain any bytes."""

from typing import Any, Final

import httpx
import msgspec

from mintscope_client.decoding import Undecodable, decode_json
from mintscope_client.wire import CredentialKind

PURCHASE: Final = "/v1/credits/purchase"


class _Purchased(msgspec.Struct, frozen=True):
    data: dict[str, Any]


class BundleData(msgspec.Struct, frozen=True, rename="camel"):
    """The credits of a purchase: on a credit token, or in the account of a user."""

    credits: int
    price_paid: int
    token: str | None = None
    user_id: int | None = None


_PURCHASED: Final = msgspec.json.Decoder(_Purchased)


def data_of(response: httpx.Response) -> dict[str, Any] | None:
    """Return `data` in the JSON of *response*; None if it is no object, or *response* an error."""
    if not response.is_success:
        return None
    try:
        return decode_json(response.content, _PURCHASED).data
    except Undecodable:
        return None


def bundle_of(data: dict[str, Any] | None) -> BundleData | None:
    """Return the purchased credits that *data* describes; None if it describes none."""
    try:
        bundle = msgspec.convert(data, BundleData)
    except msgspec.ValidationError:
        return None
    return None if bundle.token is None and bundle.user_id is None else bundle


def is_delivered(path: str, response: httpx.Response, *, bearer: str = "") -> bool:
    """Return whether *response* delivers the purchase at *path*; a proxy's error page does not.

    A purchase of credits is delivered if *response* has a credit token or, if *bearer* is the
    `Authorization` of an API key, the bundle that the service added to the account.  Any other
    purchase is delivered if *response* is a success with an object as `data`, or without a body.
    """
    data = data_of(response)
    if path.endswith(PURCHASE):
        bundle = bundle_of(data)
        has_account = bearer.startswith(f"Bearer {CredentialKind.API_KEY.prefix}")
        return bundle is not None and (bundle.token is not None or has_account)
    return response.is_success and (not response.content or data is not None)
