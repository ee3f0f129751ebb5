"""The environment of a process we start."""

import os
from collections.abc import Mapping

from mintscope.shell.config.config import PREFIX


def child_environment(settings: Mapping[str, str]) -> dict[str, str]:
    """Return this process's environment with *settings* in place of every setting in it."""
    inherited = {
        name: value
        for name, value in os.environ.items()  # noqa: TID251 - handed on, not read
        if not name.upper().startswith(PREFIX)
    }
    return inherited | dict(settings)
