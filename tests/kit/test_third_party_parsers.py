"""Libraries parse untrusted input only inside the guard, which converts their errors to one."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

import mintscope
from mintscope.kit.errors import Undecodable, parsed_by_others

SOURCES: Final = Path(mintscope.__file__).parent
NOT_SERVED: Final = ("app",)  # its input is the operator's or made here
LIBRARIES: Final = {"solders", "webauthn", "email_validator", "x402", "segno"}
PARSERS: Final = {
    "from_string", "from_bytes", "from_base58_string", "from_json", "model_validate_json",
    "validate_email", "verify_registration_response", "verify_authentication_response",
    "parse_authentication_credential_json",
}  # fmt: skip
GUARDS: Final = {"parsed_by_others", "_proving"}
# The input of these was made here, read from the chain, or comes from the operator.
OWN: Final = {
    "market/mint_facts.py",
    "market/series/holders.py",
    "payments/protocol/verify.py",
    "payments/protocol/envelope.py",
    "accounts/mail/delivery.py",
    "payments/node.py",
    "payments/price_sources.py",
    "market/series/store.py:_text",
}


class PanicException(BaseException):
    """An exception with the name of the one that a library in Rust raises for a panic."""


def unguarded(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield the function and the line of each unguarded call of a parser of LIBRARIES."""
    imported = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in LIBRARIES
        for alias in node.names
    }

    def visit(node: ast.AST, function: str, *, is_guarded: bool) -> Iterator[tuple[str, int]]:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            function = node.name
        if isinstance(node, ast.With):
            calls = [item.context_expr for item in node.items]
            names = {
                each.func.id if isinstance(each.func, ast.Name) else each.func.attr
                for each in calls
                if isinstance(each, ast.Call) and isinstance(each.func, ast.Name | ast.Attribute)
            }
            is_guarded = is_guarded or bool(names & GUARDS)
        if isinstance(node, ast.Call) and not is_guarded and not _is_constant(node):
            called = node.func
            if isinstance(called, ast.Attribute):
                owner = called.value.id if isinstance(called.value, ast.Name) else ""
                is_parser = called.attr in PARSERS and owner in imported
            else:
                is_parser = isinstance(called, ast.Name) and called.id in PARSERS & imported
            if is_parser:
                yield function, node.lineno
        for child in ast.iter_child_nodes(node):
            yield from visit(child, function, is_guarded=is_guarded)

    yield from visit(tree, "", is_guarded=False)


def _is_constant(call: ast.Call) -> bool:
    return all(isinstance(each, ast.Constant) for each in call.args) and not call.keywords


def test_every_parser_of_a_library_is_called_behind_the_guard() -> None:
    found = set()
    own: set[str] = set()
    for path in SOURCES.rglob("*.py"):
        name = path.relative_to(SOURCES).as_posix()
        if name.split("/")[0] in NOT_SERVED:
            continue
        for function, line in unguarded(ast.parse(path.read_text())):
            if exception := {name, f"{name}:{function}"} & OWN:
                own |= exception
            else:
                found.add(f"{name}:{line} in {function}")
    assert not found
    assert own == OWN, "an exception that is not needed"


def test_a_parser_without_the_guard_is_found() -> None:
    bare = "from solders.pubkey import Pubkey\ndef f(text):\n    return Pubkey.from_string(text)\n"
    behind = bare.replace("    return", "    with parsed_by_others():\n        return")
    assert list(unguarded(ast.parse(bare))) == [("f", 3)]
    assert not list(unguarded(ast.parse(behind)))
    assert not list(unguarded(ast.parse(behind.replace("parsed", "errors.parsed"))))


@pytest.mark.parametrize("error", [KeyError("x"), AssertionError(), PanicException("index 9")])
def test_every_error_of_a_library_is_undecodable(error: BaseException) -> None:
    with pytest.raises(Undecodable, match=type(error).__name__), parsed_by_others():
        raise error


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), GeneratorExit()])
def test_exceptions_that_end_the_process_pass_the_guard(error: BaseException) -> None:
    with pytest.raises(type(error)), parsed_by_others():
        raise error
