"""Messages for validation errors of pydantic, in the form of all other errors: "expected ..."."""

from typing import Final

from pydantic_core import ErrorDetails

# By the type of an error of pydantic; the values in braces are those of its context.
EXPECTATIONS: Final = {
    "int_parsing": "an integer",
    "int_from_float": "an integer",
    "int_type": "an integer",
    "int_parsing_size": "an integer of fewer digits",
    "float_parsing": "a number",
    "float_type": "a number",
    "decimal_parsing": "a number",
    "decimal_type": "a number",
    "finite_number": "a finite number",
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "string_type": "text",
    "string_too_long": "at most {max_length} characters",
    "tuple_type": "a list",
    "path_type": "a path",
    "greater_than": "more than {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
}


def expectation(details: ErrorDetails) -> str:
    """Return the expectation that the input of an error does not meet: "expected at least 1"."""
    form = EXPECTATIONS.get(details["type"])
    if form is not None:
        bounds = {name: _plain(bound) for name, bound in details.get("ctx", {}).items()}
        return "expected " + form.format_map(bounds)
    message = details["msg"].removeprefix("Value error, ")
    return message.replace("Input should be ", "expected ")


def _plain(bound: object) -> object:
    """Return *bound*, a whole one without a decimal point."""
    return int(bound) if isinstance(bound, float) and bound.is_integer() else bound
