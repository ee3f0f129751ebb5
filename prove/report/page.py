"""Writes a page of sections, each a text, a table and a picture, as Markdown and as HTML."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

STYLE: Final = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem;
       color: #1c2024; background: #fff }
table { border-collapse: collapse; width: 100%; font-size: 0.9rem }
th, td { text-align: left; padding: 0.3rem 0.6rem; border-bottom: 1px solid #d9dde2;
         vertical-align: top }
svg { max-width: 100%; margin: 1rem 0 }
svg text { font: 12px system-ui, sans-serif; fill: #1c2024 }
"""


@dataclass(frozen=True, kw_only=True)
class Section:
    """A section of the HTML page: a title, an introduction, a table and an SVG."""

    title: str
    text: str
    head: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    svg: str = ""


def write_markdown(title: str, sections: Sequence[Section]) -> str:
    """Return a page of *sections* as Markdown, without their pictures."""
    parts = [f"# {title}"]
    for section in sections:
        parts += [f"## {section.title}", section.text]
        if section.rows:
            lines = [section.head, ["---"] * len(section.head), *section.rows]
            parts.append("\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines))
    return "\n\n".join(parts) + "\n"


def write_html(title: str, sections: Sequence[Section]) -> str:
    """Return a page of *sections* as one HTML document that loads nothing."""
    body = "".join(map(_html, sections))
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style>'
        f"<h1>{escape(title)}</h1>{body}</html>\n"
    )


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _html(section: Section) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in section.head)
    rows = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
        for row in section.rows
    )
    table = f"<table><tr>{head}</tr>{rows}</table>" if section.rows else ""
    return f"<h2>{escape(section.title)}</h2><p>{escape(section.text)}</p>{section.svg}{table}"
