"""Wheels built from installed packages, so that tests can install the locked versions offline."""

import csv
import io
from collections.abc import Iterable
from importlib.metadata import Distribution, distribution
from pathlib import Path
from zipfile import ZipFile

from packaging.requirements import Requirement


def closure(names: Iterable[str], extras: Iterable[str] = ()) -> list[Distribution]:
    """Return the distributions *names*, and all distributions that they require on this machine.

    extras   the extras of *names* whose requirements are included
    """
    found: dict[str, Distribution] = {}
    waiting = [(name, frozenset(extras)) for name in names]
    while waiting:
        name, wanted = waiting.pop()
        if name.lower() in found:
            continue
        found[name.lower()] = each = distribution(name)
        for text in each.requires or ():
            need = Requirement(text)
            marker = need.marker
            if marker is None or any(marker.evaluate({"extra": one}) for one in (*wanted, "")):
                waiting.append((need.name, frozenset(need.extras)))
    return list(found.values())


def wheel_of(installed: Distribution, folder: Path) -> Path:
    """Write the wheel of *installed* to *folder*, from its installed files; return its path."""
    tag = next(
        line.removeprefix("Tag: ")
        for line in (installed.read_text("WHEEL") or "").splitlines()
        if line.startswith("Tag: ")
    )
    name = installed.name.replace("-", "_")
    path = folder / f"{name}-{installed.version}-{tag}.whl"
    record = io.StringIO()
    lines = csv.writer(record)
    with ZipFile(path, "w") as archive:
        for file in installed.files or ():
            if ".." in file.parts or "__pycache__" in file.parts or file.name == "RECORD":
                continue
            archive.write(str(file.locate()), str(file))
            lines.writerow((str(file), "", ""))
        where = f"{name}-{installed.version}.dist-info/RECORD"
        lines.writerow((where, "", ""))
        archive.writestr(where, record.getvalue())
    return path
