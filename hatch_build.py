"""Writes into the wheel of the server its commit, and that it needs the client of its version."""

import os
import subprocess
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CommitHook(BuildHookInterface[Any]):
    """Adds mintscope/app/running/commit.txt, if the commit is known, and a dependency.

    SOURCE_COMMIT names it if there is no repository, as in the build of an image.
    """

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the file to a wheel, unless it is a link to the sources; pin the client."""
        build_data["dependencies"].append(f"mintscope-client=={self.metadata.version}")
        commit = os.environ.get("SOURCE_COMMIT") or self._head()
        if version != "standard" or commit is None:
            return
        file = Path(mkdtemp()) / "commit.txt"
        file.write_text(f"{commit}\n")
        build_data["force_include"][str(file)] = "mintscope/app/running/commit.txt"

    def _head(self) -> str | None:
        if not (Path(self.root) / ".git").exists():
            return None
        ran = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=self.root, capture_output=True, text=True, check=False
        )
        return ran.stdout.strip() or None
