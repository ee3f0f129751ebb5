"""docs/operating/scale.md links every file of deploy/, and sections that exist."""

import re

from support.deployment import DEPLOY, ROOT, anchors

PAGE = ROOT / "docs" / "operating" / "scale.md"
TEXT = PAGE.read_text()


def test_every_section_that_the_page_links_exists() -> None:
    links = re.findall(r"\]\(([a-z./-]*)#([a-z-]+)\)", TEXT)

    assert len(links) >= 4
    for file, section in links:
        page = PAGE.parent / file if file else PAGE
        assert section in anchors(page), f"{file}#{section}"


def test_the_page_links_every_file_or_its_folder() -> None:
    linked = {(PAGE.parent / file).resolve() for file in re.findall(r"\]\(([^)#:]+)\)", TEXT)}
    files = [path for path in DEPLOY.rglob("*") if path.is_file() and path.parent != DEPLOY]
    # A link to a file also covers the other files of its folder.
    folders = {path if path.is_dir() else path.parent for path in linked}

    assert [path for path in files if path.parent not in folders] == []
    named = {"compose.yaml", "Containerfile", "Caddyfile", "example.toml", "example.env"}
    assert {path.name for path in linked if path.parent == DEPLOY} >= named
