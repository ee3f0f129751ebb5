"""Runs uvicorn without a framework: it sends stored bytes of a response of mintscope.

`python -m bench.peers_http.bare PORT FOLDER`, where FOLDER has `headers` and `body`.
"""

import sys
from pathlib import Path

import uvicorn
from starlette.types import Receive, Scope, Send


def main() -> None:
    port, folder = int(sys.argv[1]), Path(sys.argv[2])
    headers = [
        (name, value)
        for name, _, value in (
            line.partition(b": ") for line in (folder / "headers").read_bytes().split(b"\r\n")
        )
    ]
    body = (folder / "body").read_bytes()

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    uvicorn.run(
        app,
        host="127.0.0.1",
        port=port,
        loop="uvloop",
        http="httptools",
        ws="none",
        lifespan="off",
        server_header=False,
        access_log=False,
        log_level="error",
    )


if __name__ == "__main__":
    main()
