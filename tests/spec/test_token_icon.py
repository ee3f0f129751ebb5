"""GET /v1/token/{tokenAddress}/icon.svg: an icon for each mint, which never changes."""

from hashlib import sha256
from xml.etree import ElementTree as ET

from mintscope.solana.blocks import USDC, WSOL
from support.scenes.service import Service

PATH = f"/v1/token/{WSOL}/icon.svg"


async def test_the_icon_is_an_svg_without_scripts_or_external_content(service: Service) -> None:
    response = await service.client.get(PATH)

    assert response.status_code == 200
    assert response.headers["content-type"] == "image/svg+xml"
    assert response.headers["cache-control"] == "public, max-age=604800, immutable"
    assert response.headers["x-content-type-options"] == "nosniff"
    assert "default-src 'none'" in response.headers["content-security-policy"]
    svg = ET.fromstring(response.content)
    assert {node.tag.rpartition("}")[2] for node in svg.iter()} == {"svg", "rect", "path"}
    assert not [name for node in svg.iter() for name in node.attrib if name.startswith("on")]


async def test_the_icon_never_changes_and_differs_between_mints(service: Service) -> None:
    pictures = {(await service.client.get(PATH)).content for _ in range(3)}
    other = await service.client.get(f"/v1/token/{USDC}/icon.svg")

    # Clients may cache the picture as immutable, so it must be the same in every version.
    assert [sha256(picture).hexdigest()[:16] for picture in pictures] == ["5c8b71abd68c0def"]
    assert other.content not in pictures


async def test_a_client_that_has_the_icon_is_answered_304(service: Service) -> None:
    etag = (await service.client.get(PATH)).headers["etag"]
    response = await service.client.get(PATH, headers={"If-None-Match": etag})

    assert (response.status_code, response.content) == (304, b"")


async def test_the_icon_of_an_invalid_address_is_refused(service: Service) -> None:
    response = await service.client.get("/v1/token/abc/icon.svg")

    assert response.json()["error"]["code"] == "INVALID_TOKEN_ADDRESS"


async def test_a_cached_icon_can_be_read_by_pages_of_other_origins(service: Service) -> None:
    """A cache may keep the answer to a request without Origin, for example that of an image."""
    response = await service.client.get(PATH)

    assert response.headers["access-control-allow-origin"] == "*"
