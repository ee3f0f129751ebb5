"""Texts of strangers, as administrators see them."""


def visible(text: str, *, keep: str = "") -> str:
    """Return *text* with its control characters, and those that turn lines around or hide, shown.

    keep    characters that are left as they are all the same
    """
    return "".join(sign if sign.isprintable() or sign in keep else _number(sign) for sign in text)


def _number(sign: str) -> str:
    return sign.encode("unicode_escape").decode()
