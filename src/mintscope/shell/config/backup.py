"""The configuration of backups."""

from pydantic import Field

from mintscope.shell.config import values
from mintscope.shell.config.sections import Section


class BackupConfig(Section):
    """What `mintscope backup` does, as the timer of systemd runs it."""

    to: values.File = None
    """The folder in which each backup becomes a folder of its own."""
    kept_max: int = Field(default=24, ge=1, le=10_000)
    """Backups that are kept, the newest; of older ones one a day stays."""
    keep_days: int = Field(default=30, ge=0, le=3_650)
    """How many days one backup of each day is kept, the newest of that day."""
    secrets_to: values.File = None
    """The folder that `pepper` and `roots` are copied into, apart from the data: the one is of no
    use without the other. Unset: they are in each backup."""
