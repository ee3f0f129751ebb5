"""The configuration of what is read as a swap."""

from mintscope.shell.config import values
from mintscope.shell.config.sections import Section


class DexConfig(Section):
    """Which programs are read beside those that mintscope knows."""

    programs: values.Programs = ()
    """Programs that are read by what moved, each `NAME:ID:DISCRIMINATORS:POOL_ACCOUNT`. The first 1
    or 8 bytes of its swap instructions, in hex and apart by +; without them every instruction is
    read. Then the position of the account that names the pool, if one does."""
