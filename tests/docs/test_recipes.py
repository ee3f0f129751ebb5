"""The recipes of `make prove` name tests that exist, and replace lines that exist."""

import importlib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def recipes(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    monkeypatch.syspath_prepend(str(ROOT))
    return list(importlib.import_module("prove.recipes").RECIPES.values())


def test_every_mutant_replaces_a_line_that_exists(recipes: list[Any]) -> None:
    recipe_module = importlib.import_module("prove.recipe")
    for mutant in (mutant for recipe in recipes for mutant in recipe.mutants):
        source = (recipe_module.PACKAGE / mutant.file).read_text()
        compile(recipe_module.mutated(source, mutant), mutant.file, "exec")


def test_every_recipe_names_tests_that_exist(recipes: list[Any]) -> None:
    for recipe in recipes:
        broken = [test for mutant in recipe.mutants for test in mutant.tests]
        for test in (*recipe.tests, *recipe.mistakes, *broken):
            file, _, name = test.partition("::")
            text = (ROOT / "tests" / file).read_text()
            assert not name or f"def {name}(" in text, test


def test_a_mutant_of_a_line_that_does_not_exist_is_an_error(recipes: list[Any]) -> None:
    recipe_module = importlib.import_module("prove.recipe")
    mutant = recipe_module.Mutant("none", "file.py", "no such line", "pass")
    with pytest.raises(ValueError, match="expected the line 'no such line' once"):
        recipe_module.mutated("some line\n", mutant)
    assert recipes
