"""The parent process: its messages, and the end of this process when the parent ends."""

import os
import signal
import threading
from collections.abc import Callable


def attach(hear: Callable[[bytes], None]) -> None:
    """Pass each line from the parent on standard input to *hear*; at its end, send SIGTERM."""

    def watch() -> None:
        # Not through sys.stdin, whose lock a thread that waits would hold when the process ends.
        with open(0, "rb", buffering=0, closefd=False) as lines:
            for line in lines:
                hear(line)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="parent", daemon=True).start()
