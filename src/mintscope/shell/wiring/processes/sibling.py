"""Messages of the parent of the processes of a service to each of them about the others."""

import msgspec


class Sibling(msgspec.Struct, frozen=True):
    """How one process is.

    restarts     how often it was started again
    is_stopped   it has ended, and is not started again before an operator has decided
    """

    restarts: int = 0
    is_stopped: bool = False
