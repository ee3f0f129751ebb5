"""GET /openapi.json is made once and compressed; clients that have it are answered 304."""

from support.scenes.service import Service


async def test_the_document_is_compressed_for_clients_that_accept_it(service: Service) -> None:
    packed = await service.client.get("/openapi.json", headers={"accept-encoding": "gzip"})
    plain = await service.client.get("/openapi.json", headers={"accept-encoding": "identity"})

    assert packed.headers["content-encoding"] == "gzip"
    assert "content-encoding" not in plain.headers
    assert packed.json() == plain.json()


async def test_a_client_that_has_the_document_is_answered_304(service: Service) -> None:
    first = await service.client.get("/openapi.json")

    again = await service.client.get(
        "/openapi.json", headers={"if-none-match": first.headers["etag"]}
    )

    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["vary"] == first.headers["vary"] == "Accept-Encoding"


async def test_pages_of_other_origins_may_read_the_document(service: Service) -> None:
    response = await service.client.get(
        "/openapi.json", headers={"origin": "https://other.example"}
    )

    cached = await service.client.get("/openapi.json")
    unchanged = await service.client.get(
        "/openapi.json", headers={"if-none-match": cached.headers["etag"]}
    )

    for each in (response, cached, unchanged):
        assert each.headers["access-control-allow-origin"] == "*"
