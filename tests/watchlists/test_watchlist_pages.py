"""Pages of watchlists: the API has the same watchlists, and other people cannot see them."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from solders.pubkey import Pubkey

from mintscope.accounts.email_address import EmailAddress
from mintscope.accounts.keys.scope import Scope
from mintscope.kit.primitives import Mint
from mintscope.solana.blocks import USDC, WSOL
from mintscope.watchlists.rows import WATCHED_MAX, WATCHLISTS_MAX, WatchlistId
from support.scenes.people.web_person import ALICE, MALLORY, ORIGIN, Person, where, words
from support.scenes.service import bearer
from support.scenes.website import HERE, PASSWORD, Website, website

MINTS = [Mint(str(Pubkey(number.to_bytes(32)))) for number in range(1, WATCHED_MAX + 1)]


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Website]:
    """Yield a service with a market, whose list of tokens contains wrapped SOL."""
    async with website(tmp_path, origin=ORIGIN, has_market=True) as site:
        yield site


async def make(person: Person, name: str) -> str:
    """Create a watchlist by the form; return the path of its page."""
    made = await person.send("/watchlists", {"name": name})
    assert made.status_code == 303, words(made)
    return where(made).partition("?")[0]


async def test_a_watchlist_is_created_filled_renamed_and_deleted(alice: Person) -> None:
    path = await make(alice, "Mine & yours")

    await alice.send(f"{path}/add", {"mint": WSOL})
    await alice.send(f"{path}/add", {"mint": USDC})
    filled = words(await alice.open(path))
    await alice.send(f"{path}/rename", {"name": "Other"})
    await alice.send(f"{path}/remove", {"mint": WSOL})
    emptied = words(await alice.open(path))
    listed = words(await alice.open("/watchlists"))
    asked = words(await alice.open(f"{path}/delete"))
    await alice.send(f"{path}/delete")

    assert "Mine & yours" in filled
    assert "2 of 200 tokens" in filled
    assert "1 of 200 tokens" in emptied
    assert "Other 1 token, since" in listed
    assert "Delete Other ?" in asked
    assert "You have no watchlists yet" in words(await alice.open("/watchlists"))
    assert (await alice.open(path)).status_code == 404


async def test_a_form_that_is_sent_twice_creates_one_watchlist(alice: Person) -> None:
    (once,) = re.findall(r'name="once" value="([^"]+)"', (await alice.open("/watchlists")).text)
    form = {"name": "Mine", "once": once}

    first, second = [where(await alice.send("/watchlists", form)) for _ in range(2)]
    other = await alice.send("/watchlists", {**form, "name": "Other"})

    assert first == second
    assert "1 of 20" in words(await alice.open("/watchlists"))
    assert other.status_code == 422
    assert "This form has already created a watchlist." in words(other)
    assert once not in other.text


async def test_a_token_is_added_by_name_after_it_is_chosen_from_the_matches(alice: Person) -> None:
    path = await make(alice, "Mine")
    found = await alice.send(f"{path}/add", {"mint": "sol", "find": "yes"})
    named = await alice.send(f"{path}/add", {"mint": "sol"})
    unknown = await alice.send(f"{path}/add", {"mint": "no such token"})
    empty = words(await alice.open(path))
    await alice.send(f"{path}/add", {"mint": "sol", "choose": WSOL})

    assert (found.status_code, named.status_code, unknown.status_code) == (200, 422, 422)
    for each in (found, named):
        assert f'name="choose" value="{WSOL}"' in each.text
    assert "Choose one of these" in words(named)
    assert "No tracked token has this name" in words(unknown)
    assert "0 of 200 tokens" in empty
    assert "1 of 200 tokens" in words(await alice.open(path))


async def test_a_watchlist_shows_a_price_or_that_a_token_is_not_tracked(alice: Person) -> None:
    path = await make(alice, "Mine")
    for mint in (WSOL, "Es9vMFrzaCERmJfrF4H2FYD4KCoNkY11McCe8BenwNYB"):
        await alice.send(f"{path}/add", {"mint": mint})

    shown = words(await alice.open(path))

    assert "$" in shown
    assert "Es9v…wNYB Not tracked, or no trades yet" in shown


@pytest.mark.parametrize(
    ("form", "field", "text", "reported"),
    [
        ("", "name", " ", "Enter a name"),
        ("", "name", "x" * 65, "Enter a name"),
        ("", "name", "a\nb", "Enter a name"),
        ("/rename", "name", "", "Enter a name"),
        ("/add", "mint", "nothing", "No tracked token has this name"),
        ("/add", "mint", "", "Name a token: its name or symbol, or its mint address."),
    ],
)
async def test_an_invalid_name_or_token_gets_422_and_the_reason(
    alice: Person, form: str, field: str, text: str, reported: str
) -> None:
    path = await make(alice, "Mine") if form else "/watchlists"

    answer = await alice.send(f"{path}{form}", {field: text})

    assert answer.status_code == 422
    assert reported in words(answer)


async def test_watchlists_and_their_tokens_are_limited(site: Website, alice: Person) -> None:
    path = await make(alice, "Mine")
    for number in range(WATCHLISTS_MAX - 1):
        await make(alice, f"List {number}")
    users = await site.accounts.review.users(limit=1)
    watchlist_id = WatchlistId(int(path.rpartition("/")[2]))
    for number in range(WATCHED_MAX):
        await site.accounts.watchlists.add(users[0].user_id, watchlist_id, MINTS[number])

    one_more = await alice.send("/watchlists", {"name": "More"})
    token_more = await alice.send(f"{path}/add", {"mint": WSOL})

    assert "which is the maximum" in words(one_more)
    assert "which is the maximum" in words(token_more)
    assert "Create a watchlist" not in words(await alice.open("/watchlists"))


async def test_the_api_returns_watchlists_made_on_the_pages(site: Website, alice: Person) -> None:
    path = await make(alice, "Mine")
    await alice.send(f"{path}/add", {"mint": WSOL})
    people, keys = site.accounts.people, site.accounts.keys
    session = await people.session(await people.sign_in(EmailAddress(ALICE), PASSWORD, HERE))
    assert session is not None
    scopes = frozenset({Scope.GROUPS_READ})
    issued = await keys.create(session, name="Reader", scopes=scopes, lifetime_ms=None)

    transport = httpx.ASGITransport(site.app)
    async with httpx.AsyncClient(transport=transport, base_url=ORIGIN) as program:
        answer = await program.get(
            path.replace("/watchlists", "/v1/groups"), headers=bearer(issued.api_key)
        )

    assert answer.json()["data"]["name"] == "Mine"
    assert answer.json()["data"]["mints"] == [WSOL]


async def test_watchlists_of_other_accounts_are_404(site: Website, alice: Person) -> None:
    path = await make(alice, "Mine")
    async with Person(site, address="198.51.100.9") as mallory:
        await mallory.sign_up(MALLORY)
        answers = [await mallory.open(path), await mallory.open(f"{path}/delete")]
        for form, fields in (
            ("rename", {"name": "Theirs"}),
            ("add", {"mint": WSOL}),
            ("remove", {"mint": WSOL}),
            ("delete", {}),
        ):
            answers.append(await mallory.send(f"{path}/{form}", fields))

    assert {answer.status_code for answer in answers} == {404}
    assert "Mine" in words(await alice.open(path))
