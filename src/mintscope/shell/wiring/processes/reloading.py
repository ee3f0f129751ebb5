"""SIGHUP: applies settings that may change while a process runs, and names the others."""

import signal
from asyncio import get_running_loop
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import structlog

from mintscope.shell.config.config import Config
from mintscope.shell.config.load import ConfigError, settings

Reread = Callable[[], Config]
Apply = Callable[[Config], None]

log = structlog.get_logger()


def values_of(config: Config) -> dict[str, Any]:
    """Return every setting of *config* by its key."""
    return {each.key: each.value(config) for _, _, group in settings() for each in group}


class Reloading:
    """The settings that a process runs with, some of which can change.

    reread    reads the configuration again.  Raises ConfigError
    applied   the functions that apply a new setting, by its key
    ours      returns whether this process uses a key; others are ignored
    """

    def __init__(
        self,
        config: Config,
        reread: Reread,
        applied: Mapping[str, Apply],
        *,
        ours: Callable[[str], bool] = lambda _: True,
    ) -> None:
        self._now = values_of(config)
        self._reread = reread
        self._applied = applied
        self._ours = ours

    def again(self) -> Sequence[str]:
        """Read the configuration again, apply settings that may change, and log the others.

        Returns the keys of the settings that were applied.

        Settings that need a restart are named each time until the restart.
        """
        try:
            config = self._reread()
        except ConfigError as error:
            log.error("settings_not_reloaded", problems=error.problems)  # noqa: TRY400 - not a bug
            return ()
        found = values_of(config)
        changed = {key for key, value in found.items() if value != self._now[key]}
        changed = {key for key in changed if self._ours(key)}
        taken_over = sorted(changed & self._applied.keys())
        for apply in {self._applied[key] for key in taken_over}:
            apply(config)
        self._now |= {key: found[key] for key in taken_over}
        log.info("settings_reloaded", changed=taken_over)
        waiting = sorted(changed - self._applied.keys())
        if waiting:
            log.warning("restart needed", settings=waiting)
        return taken_over


@contextmanager
def reloading(
    config: Config,
    reread: Reread | None,
    applied: Mapping[str, Apply],
    *,
    ours: Callable[[str], bool] = lambda _: True,
) -> Iterator[None]:
    """Read the settings again at each SIGHUP during the block, in the event loop.

    reread   None: a SIGHUP is ignored
    """
    loop = get_running_loop()
    on_signal = _nothing if reread is None else Reloading(config, reread, applied, ours=ours).again
    loop.add_signal_handler(signal.SIGHUP, on_signal)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGHUP)


def _nothing() -> None: ...
