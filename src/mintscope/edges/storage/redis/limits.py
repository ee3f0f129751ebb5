"""Rate limits in Redis or Valkey: an exact moving window, by the time of the server."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import msgspec
from redis.asyncio.connection import Connection, parse_url
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from mintscope.base.clock import Clock
from mintscope.edges.storage.limit_batches import AskedWindow, FoundWindow, LimitStoreAway, now_us

CONNECT_S: Final = 1.0
PREFIX: Final = b"mintscope:limit:"
# A key is a list of the times of its admissions in microseconds, the oldest first.  One that is
# ahead of now by more than its window is from before the server's clock was set back.  What is
# asked and found goes as one message each: hundreds of arguments would take most of the time.
SCRIPT: Final = """
local now, asked = unpack(cmsgpack.unpack(ARGV[1]))
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
local admitted, found = string.format('%.0f', now), {}
for i, key in ipairs(KEYS) do
  local count, window, returned, taken = unpack(asked[i])
  local oldest = tonumber(redis.call('LINDEX', key, 0) or nil)
  while oldest and (now - oldest >= window or oldest - now > window) do
    redis.call('LPOP', key)
    oldest = tonumber(redis.call('LINDEX', key, 0) or nil)
  end
  for _ = 1, returned do redis.call('RPOP', key) end
  local held = redis.call('LLEN', key)
  found[i] = {held, held > 0 and math.max(0, now - oldest) or 0}
  for _ = 1, math.min(taken, count - held) do
    redis.call('RPUSH', key, admitted)
    redis.call('PEXPIRE', key, string.format('%.0f', window / 1000 + 60000))
  end
end
return cmsgpack.pack(found)
"""
_encode: Final = msgspec.msgpack.Encoder().encode
_found: Final = msgspec.msgpack.Decoder(list[FoundWindow])


class RedisWindows:
    """Implements WindowStore over one connection; connects when it is first asked.

    url     as redis://user:password@host:port/0, or rediss:// for TLS
    clock   tells the time instead of the server; for tests
    Raises  ValueError for a URL that is none
    """

    def __init__(self, url: str, *, clock: Clock | None = None) -> None:
        options: dict[str, Any] = {**parse_url(url)}
        kind = options.pop("connection_class", Connection)  # another one for TLS
        self._new_connection = partial(
            kind, **options, socket_connect_timeout=CONNECT_S, retry=Retry(NoBackoff(), 0)
        )
        self._clock = clock
        self._connection: Any = None  # redis-py has no types for some of its methods
        self._sha = b""

    async def settle(self, asked: Sequence[AskedWindow]) -> Sequence[FoundWindow]:
        """Run the script over all keys, in one call."""
        now = False if self._clock is None else now_us(self._clock)
        keys = [PREFIX + each.key for each in asked]
        message = _encode((now, [each[1:] for each in asked]))
        connection, self._connection = self._connection, None
        try:
            connection = connection or await self._connect()
            await connection.send_command("EVALSHA", self._sha, len(keys), *keys, message)
            found = _found.decode(await connection.read_response())
            self._connection = connection
        except (RedisError, OSError) as cause:
            raise LimitStoreAway(str(cause)) from cause
        finally:  # an answer that comes too late must not be read as the next one's
            if self._connection is None and connection is not None:
                await connection.disconnect(nowait=True)
        return found

    async def aclose(self) -> None:
        """Let go of the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.disconnect(nowait=True)

    async def _connect(self) -> Any:
        connection: Any = self._new_connection()
        await connection.connect()
        await connection.send_command("SCRIPT", "LOAD", SCRIPT)
        self._sha = await connection.read_response()
        return connection
