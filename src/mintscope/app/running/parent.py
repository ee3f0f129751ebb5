"""The process that has started this one: its messages, and our end with it."""

import os
import signal
import threading
from collections.abc import Callable


def attach(hear: Callable[[bytes], None]) -> None:
    """Hear the lines of the parent on our standard input; its end becomes a SIGTERM."""

    def watch() -> None:
        # Not through sys.stdin, whose lock a thread that waits would hold when the process ends.
        with open(0, "rb", buffering=0, closefd=False) as lines:
            for line in lines:
                hear(line)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="parent", daemon=True).start()
