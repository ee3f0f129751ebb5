"""The check of English finds clauses used as nouns, and ignores code and questions."""

import pytest
from prove.english import findings


def found(text: str, suffix: str = ".md") -> list[str]:
    return [one.text for one in findings(text, suffix)]


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        ("Who is signed in sees credits.", "Who is signed in sees credits"),
        ("It ends. What a 402 says is in its body.", "What a 402 says is in its body"),
        ("The page is told.", "told"),
        ("- What comes\n  is kept.", "What comes is kept"),
        ("It is made anew.", "anew"),
        ("Return what is kept of a key.", "Return what is kept of a key"),
    ],
)
def test_a_headless_clause_and_a_banned_word_are_found(text: str, finding: str) -> None:
    assert found(text) == [finding]


@pytest.mark.parametrize(
    "text",
    [
        "What does a credit buy?",
        "## What each number means",
        "Run `tell anew` to see what comes.",
        "```sh\nWho is told.\n```",
        "The one who is signed in, what it may do.",
        "Whatever a client sends, the service answers.",
    ],
)
def test_questions_headings_and_code_have_no_findings(text: str) -> None:
    assert found(text) == []


def test_docstrings_comments_and_messages_are_read_and_names_are_not() -> None:
    source = '''"""What it does is good."""
told = tell("whence")  # made anew
raise ValueError("it came from whence it went")
SQL = "SELECT told FROM anew WHERE tells"
'''
    assert sorted(found(source, ".py")) == ["What it does is good", "anew", "whence"]


def test_text_between_tags_is_read_and_tags_are_not() -> None:
    page = '<p class="told">{{ told.text }} Be told <code>tell</code></p>'

    assert found(page, ".html") == ["told"]


def test_a_finding_has_the_file_the_line_and_the_folder() -> None:
    (one,) = findings("first\n\nsecond.\nIt is told.\n", ".md", "a.md")

    assert (one.file, one.line, one.folder) == ("a.md", 4, "a.md")
