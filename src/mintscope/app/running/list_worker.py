"""The process that stores the list of all tokens for ingest while no api process does.

Making the list takes hundreds of megabytes, and seconds of processor time: too much for ingest. The
command of the process is `python -m` with this module; it reads an `Order` from standard input.
`store_apart` starts it.
"""

import asyncio
import os
import signal
import sys
from subprocess import PIPE
from typing import Final

import msgspec
import structlog

from mintscope.app.config.groups import Config
from mintscope.app.running.logging import configure_logging
from mintscope.app.stores.stores import open_market
from mintscope.kit.clock import SystemClock
from mintscope.market.follow.list_cache import MINTS_MIN, store_list

MODULE: Final = "mintscope.app.running.list_worker"
NICE: Final = 10
STORED_S_MAX: Final = 900.0
ALONE_S_MAX: Final = STORED_S_MAX + 60  # needed if ingest was killed and cannot end the process
EXIT_NOT_STORED: Final = 1

log = structlog.get_logger()


class Order(msgspec.Struct, frozen=True):
    """The task of this process, which stores the list of all tokens; a line of JSON on its stdin.

    data_dir      the folder of the installation
    store         the address of the shared PostgreSQL store; None: the store is in *data_dir*
    level         the minimum level of log lines
    is_json       whether log lines are JSON
    mints_min     a list with fewer mints is not stored
    alone_s_max   seconds after which the process ends itself, even if it is blocked
    """

    data_dir: str
    store: str | None
    level: str
    is_json: bool
    mints_min: int = MINTS_MIN
    alone_s_max: float = ALONE_S_MAX


async def store_apart(order: Order) -> bool:
    """Store the list of all tokens from a separate process, started here; return whether it worked.

    A cancellation ends the process.  Raises OSError if the process cannot start.
    """
    command = [sys.executable, "-m", MODULE]
    # Ctrl-C reaches only ingest, which ends the process.
    process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, start_new_session=True)
    try:
        async with asyncio.timeout(STORED_S_MAX):
            # Not as arguments, which other users can read: the store's address may have a password.
            await process.communicate(msgspec.json.encode(order))
        # A killed process has not logged the reason.
        if process.returncode is not None and process.returncode < 0:
            log.warning("list_not_kept", error=f"ended by signal {-process.returncode}")
    except TimeoutError:
        log.warning("list_not_kept", error=f"not within {STORED_S_MAX:.0f} s")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode == 0


async def _store(order: Order) -> bool:
    config = Config.model_validate({"data_dir": order.data_dir, "store": order.store})
    async with open_market(config) as market:
        count = await store_list(
            market.lists,
            market.list_snapshots,
            SystemClock(),
            mints_min=order.mints_min,
            again=True,
        )
    return isinstance(count, int)


def main() -> int:
    """Store the list of all tokens, by the `Order` on standard input; return the exit code."""
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=Order)
    # SIGALRM also ends a process that waits in C code.
    signal.setitimer(signal.ITIMER_REAL, order.alone_s_max)
    os.nice(NICE)
    configure_logging(order.level, json_lines=order.is_json)
    with structlog.contextvars.bound_contextvars(process="ingest, list"):
        try:
            is_stored = asyncio.run(_store(order))
        except Exception as trouble:  # noqa: BLE001 - ingest tries again, and a trace is no log line
            log.warning("list_not_kept", error=repr(trouble))
            return EXIT_NOT_STORED
    return 0 if is_stored else EXIT_NOT_STORED


if __name__ == "__main__":
    sys.exit(main())
