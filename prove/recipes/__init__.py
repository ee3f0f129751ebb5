"""The claims that `make prove` checks, by name."""

from typing import Final

from prove.recipe import Recipe
from prove.recipes import access, budgets, guard, http, market, money, operations

RECIPES: Final[dict[str, Recipe]] = {
    recipe.name: recipe
    for recipe in (
        *money.RECIPES,
        *access.RECIPES,
        *http.RECIPES,
        *market.RECIPES,
        *operations.RECIPES,
        *guard.RECIPES,
        *budgets.RECIPES,
    )
}
