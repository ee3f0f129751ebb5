"""The folder of all files, held by one process for each role."""

from contextlib import AbstractContextManager, nullcontext

from mintscope.edges.storage import folder
from mintscope.shell.config.config import Config


def held(config: Config, role: str, *, patience_s: float = 0.0) -> AbstractContextManager[None]:
    """Hold the folder of all files for *role*, unless they are kept elsewhere.

    Raises FolderInUse, FolderOpen.
    """
    if config.store is not None:  # there the database says who may write
        return nullcontext()
    may_be_open = config.data_dir_may_be_open
    return folder.held(config.data_dir, role, may_be_open=may_be_open, patience_s=patience_s)
