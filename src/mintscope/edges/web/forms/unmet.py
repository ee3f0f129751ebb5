"""What a form holds that it must not."""

from collections.abc import Mapping


class Unmet(Exception):
    """Fields that hold what they must not: what is wrong with each, for people."""

    def __init__(self, errors: Mapping[str, str]) -> None:
        super().__init__("; ".join(f"{field}: {error}" for field, error in errors.items()))
        self.errors = errors
