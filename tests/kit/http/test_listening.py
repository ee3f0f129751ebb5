"""The options of accepted connections."""

import socket

import pytest

from mintscope.app.config.config import ApiConfig
from mintscope.app.running.processes import bind


@pytest.mark.parametrize("unread_s", [14.0, 60.0])
def test_a_connection_ends_if_its_client_has_vanished(unread_s: float) -> None:
    with (
        bind(ApiConfig(port=0, answer_timeout_s=unread_s)) as listener,
        socket.create_connection(listener.getsockname()),
        listener.accept()[0] as accepted,
    ):
        unsent_ms = accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
        is_probed = accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        probes = [
            accepted.getsockopt(socket.IPPROTO_TCP, option)
            for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        ]

    assert unsent_ms == (unread_s + 6) * 1_000
    assert is_probed == 1
    assert probes == [10, 5, 2]
