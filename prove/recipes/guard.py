"""Claims of `make prove` about mistakes of operators, and false data from strangers."""

from typing import Final

from prove.recipe import Mutant, Recipe

GUESSING: Final = "kit/credentials.py"
REDELIVERY: Final = "payments/reconciler.py"
IDENTITY: Final = "kit/sql/identity.py"
PRICES: Final = "payments/price_sources.py"
LISTED: Final = "market/screening/listed.py"

SECRETS: Final = Recipe(
    name="secrets of an example",
    proves="no secret that stands in a document, can be guessed or lies open starts the service",
    tests=(
        "docs/test_example_secrets.py",
        "kit/test_guessed_secrets.py",
        "stores/test_pepper.py",
        "app/config/test_config.py",
    ),
    mutants=(
        Mutant(
            "configured secrets are not looked at",
            "app/config/load.py",
            "problems += guessable(config)",
            "pass",
            ("docs/test_example_secrets.py",),
        ),
        Mutant(
            "a key that counts is taken",
            GUESSING,
            "if min(len(set(key)), len(differences)) < DIFFERENT_BYTES_MIN:",
            "if len(set(key)) < DIFFERENT_BYTES_MIN:",
            ("kit/test_guessed_secrets.py",),
        ),
        Mutant(
            "the pepper's file is not looked at",
            "app/stores/folder.py",
            "if flaw is not None and signs:",
            "if False:",
            ("stores/test_pepper.py",),
        ),
        Mutant(
            "a configuration that others may read is taken",
            "app/config/load.py",
            "if mode & OTHERS:",
            "if False:",
            ("app/config/test_config.py",),
        ),
    ),
)
ROTATION: Final = Recipe(
    name="rotated secrets",
    proves="after a rotation the old secret signs nothing that counts; every credential is good",
    tests=(
        "kit/test_roots.py",
        "payments/test_rotated_secrets.py",
        "payments/chain/test_rotated_roots.py",
        "app/cli/test_secrets_command.py",
    ),
    mutants=(
        Mutant(
            "what was replaced counts for ever",
            REDELIVERY,
            "if now - newer.since < OVERLAP_MS",
            "if True",
        ),
        Mutant(
            "what was replaced counts no more at once",
            REDELIVERY,
            "if now - newer.since < OVERLAP_MS",
            "if False",
        ),
        Mutant(
            "the new secret never signs",
            REDELIVERY,
            "return next((each for each in self.newer if each.since <= now), self)",
            "return self",
        ),
        Mutant(
            "answers of before are lost",
            REDELIVERY,
            "return (*self.newer, self)",
            "return self.newer or (self,)",
        ),
    ),
)
OWN_STORES: Final = Recipe(
    name="one installation",
    proves="another chain, an emptied store or that of another installation is refused",
    tests=(
        "stores/test_identity.py",
        "payments/chain/test_price_sources.py",
        "app/test_ready_to_sell.py",
    ),
    mutants=(
        Mutant(
            "a store of a newer version is opened",
            "kit/sql/sqlite.py",
            "if unknown:",
            "if False:",
            ("stores/test_identity.py",),
        ),
        Mutant(
            "emptied money is a new installation",
            IDENTITY,
            "if not (is_used or beside.is_new):",
            "if False:",
            ("stores/test_identity.py",),
        ),
        Mutant(
            "a market of another installation is taken",
            IDENTITY,
            "if not beside.is_new:",
            "if False:",
            ("stores/test_identity.py",),
        ),
        Mutant(
            "payments are taken on any chain",
            PRICES,
            "if settled_on == followed:",
            "if settled_on:",
            ("payments/chain/test_price_sources.py", "app/test_ready_to_sell.py"),
        ),
        Mutant(
            "a frozen treasury is not reported",
            "app/payments.py",
            "if each.price_cache.doubt in CLOSING:",
            "if False:",
            ("app/test_ready_to_sell.py",),
        ),
    ),
)
TRUTHS: Final = Recipe(
    name="caps, pauses, names",
    proves="a cap counts for rotations, a pause quotes nothing, imitations are named as such",
    tests=(
        "contract/test_debit_ledger.py",
        "contract/test_credits_of_users.py",
        "spec/test_pay_per_request.py",
        "spec/test_paused_sales.py",
        "spec/test_list_tokens.py",
        "market/test_look_alikes.py",
        "site/token/test_look_alike_pages.py",
        "app/cli/test_children.py",
    ),
    mutants=(
        Mutant(
            "each rotation of a key has the cap once more",
            "credits/sqlite.py",
            "WHERE coalesce(each_.first_key, each_.id) = coalesce(k.first_key, k.id)), 0))",
            "WHERE each_.id = k.id), 0))",
            ("contract/test_debit_ledger.py",),
        ),
        Mutant(
            "an account is deleted under its payment",
            "accounts/sessions.py",
            "if rows.credits.is_paid_for(user.user_id):",
            "if False:",
            ("contract/test_credits_of_users.py",),
        ),
        Mutant(
            "a 402 quotes while sales are paused",
            "payments/merchant.py",
            "if order.is_for_credits or self.is_closed():",
            "if order.is_for_credits:",
            ("spec/test_paused_sales.py",),
        ),
        Mutant(
            "a token looks like itself",
            LISTED,
            "is_larger = self._volume[top] > self._volume[rows]",
            "is_larger = self._volume[top] >= self._volume[rows]",
            ("spec/test_list_tokens.py",),
        ),
        Mutant(
            "pages do not name what a token imitates",
            "site/token/pages.py",
            "larger = None if self.line is None else self.line.look_alike_of",
            "larger = None",
            ("site/token/test_look_alike_pages.py",),
        ),
        Mutant(
            "hidden characters of a name are not reported",
            "market/screening/look_alikes.py",
            "if text is None or (text.isascii() and text.isprintable()):",
            "if True:",
            ("spec/test_list_tokens.py",),
        ),
        Mutant(
            "serve is started again though only an operator can help",
            "app/running/serve.py",
            "needs_operator=code == EXIT_OPERATOR,",
            "needs_operator=False,",
            ("app/cli/test_children.py",),
        ),
    ),
)
SUPPLY: Final = Recipe(
    name="supply chain",
    proves="what is installed is locked, listed with its licence, and in no advisory that is kept",
    tests=("deploy/test_supply.py", "deploy/test_licences.py", "deploy/test_systemd.py"),
    mistakes=(
        "deploy/test_supply.py::test_the_audit_returns_1_if_an_advisory_of_the_folder_applies",
        "deploy/test_supply.py::test_an_advisory_affects_exactly_the_versions_in_its_ranges",
        "deploy/test_supply.py::test_the_audit_names_each_image_without_a_digest",
        "deploy/test_supply.py::test_a_digest_is_read_and_a_name_without_a_tag_is_refused",
    ),
)
RECIPES: Final = (SECRETS, ROTATION, OWN_STORES, TRUTHS, SUPPLY)
