"""`make sbom`: writes all packages of the lock files to build/sbom.json, as CycloneDX 1.6."""

import json
import re
from typing import Any, Final

from mintscope import __version__
from prove.supply.locked import ROOT, locked

TARGET: Final = ROOT / "build" / "sbom.json"


def bill() -> dict[str, Any]:
    """Return a CycloneDX bill of materials: all packages of the lock files, with their licences."""
    licences = dict(
        re.findall(
            r"^\| ([a-z0-9.-]+) \| (.+?) \|$",
            (ROOT / "docs" / "reference" / "licences.md").read_text(),
            re.MULTILINE,
        )
    )
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {"type": "application", "name": "mintscope", "version": __version__}
        },
        "components": [
            {
                "type": "library",
                "name": each.name,
                "version": each.version,
                "purl": f"pkg:pypi/{each.name}@{each.version}",
                "bom-ref": f"pkg:pypi/{each.name}@{each.version}",
                "licenses": [{"license": {"name": licences[each.name]}}],
                "externalReferences": [
                    {
                        "type": "distribution",
                        "url": f"pkg:pypi/{each.name}@{each.version}",
                        "hashes": [{"alg": "SHA-256", "content": sha} for sha in each.hashes],
                    }
                ],
            }
            for each in locked()
        ],
    }


if __name__ == "__main__":
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(json.dumps(bill(), indent=1) + "\n")
    print(f"{TARGET.relative_to(ROOT)}: {len(bill()['components'])} packages")
