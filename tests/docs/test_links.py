"""Links lead to existing sections; operating.md still has the anchors from before it was split."""

import json
import re
from pathlib import Path
from typing import Final

from support.deployment import ROOT, anchors

PAGES: Final = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]

# The sections of docs/operating.md before it was split: alerts of installations link to them.
SECTIONS_BEFORE: Final = json.loads((Path(__file__).parent / "operating_sections.json").read_text())


def broken(page: Path) -> list[str]:
    """Return the links of *page* to files or headings that do not exist."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    found = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        path, _, section = target.partition("#")
        if ":" in path:
            continue
        file = page.parent / path if path else page
        if not file.exists() or (section and section not in anchors(file)):
            found.append(target)
    return found


def test_every_link_leads_to_an_existing_file_or_section() -> None:
    found = {str(page.relative_to(ROOT)): broken(page) for page in PAGES}

    assert {page: links for page, links in found.items() if links} == {}


def test_only_links_that_lead_nowhere_are_broken(tmp_path: Path) -> None:
    """If `broken` read no links, the test of all pages would pass; this test would fail."""
    page = tmp_path / "page.md"
    page.write_text(
        "# A page\n\n[a](#a-page) [b](#none) [c](page.md#a-page) [d](page.md#none) [e](none.md)\n"
        "[f](https://example.org/none) [g](page.md)\n\n```\n[h](none.md)\n```\n"
    )

    assert broken(page) == ["#none", "page.md#none", "none.md"]


def test_every_page_of_operating_is_in_its_index() -> None:
    index = (ROOT / "docs" / "operating.md").read_text()
    pages = [path.name for path in (ROOT / "docs" / "operating").glob("*.md")]

    assert [name for name in pages if f"](operating/{name})" not in index] == []


def test_links_to_sections_of_the_old_page_still_work() -> None:
    index = (ROOT / "docs" / "operating.md").read_text()

    assert [name for name in SECTIONS_BEFORE if f'<a id="{name}"></a>' not in index] == []
