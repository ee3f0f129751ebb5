"""Recovery codes: ten, shown once, each good for one sign-in when phone and passkeys are lost."""

from collections.abc import Callable
from typing import Final

CODES: Final = 10
GROUPS: Final = 2
GROUP_LENGTH: Final = 5
# Without signs that are taken for one another: 0 and o, 1 and l and i, u and v.
SIGNS: Final = "23456789abcdefghjkmnpqrstwxyz"
BYTES_PER_SIGN: Final = 4  # so that no sign is noticeably more likely than another


def make_codes(entropy: Callable[[int], bytes]) -> list[str]:
    """Return ten codes of 48 bits each, as `3k7mp-x2rqa`."""
    return [_make_code(entropy) for _ in range(CODES)]


def _make_code(entropy: Callable[[int], bytes]) -> str:
    length = GROUPS * GROUP_LENGTH
    drawn = entropy(length * BYTES_PER_SIGN)
    numbers = [
        int.from_bytes(drawn[start : start + BYTES_PER_SIGN])
        for start in range(0, len(drawn), BYTES_PER_SIGN)
    ]
    signs = "".join(SIGNS[number % len(SIGNS)] for number in numbers)
    return f"{signs[:GROUP_LENGTH]}-{signs[GROUP_LENGTH:]}"


def plain(text: str) -> str:
    """Return a typed code in the form that is compared: without spaces and dashes, in lower case.

    Codes of apps and recovery codes are typed into one field.
    """
    return "".join(text.split()).replace("-", "").lower()
