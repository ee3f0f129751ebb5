"""How messages of the rules read on a page."""


def sentence(text: object) -> str:
    """Return *text* as a sentence: a capital letter before, a full stop behind."""
    plain = str(text)
    return plain[:1].upper() + plain[1:] + ("" if plain.endswith((".", "!", "?")) else ".")
