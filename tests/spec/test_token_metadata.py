"""GET /v1/token/{tokenAddress}/metadata: the facts about a mint, also in words."""

from msgspec.structs import replace

from mintscope.kit.primitives import UnixMs
from mintscope.kit.time import iso_time
from mintscope.market.mint_facts import ScaledUiAmount, TokenProgram
from support.fakes.facts import FACTS
from support.fakes.reports import TRACKED, UNTRACKED
from support.scenes.service import NOW, Service

PATH = f"/v1/token/{TRACKED}/metadata"
STRANGER = "9WzDXwBbmkg8ZTbNMqUxvQRAyrZzDsGYdLVL9zYtAWWM"


async def test_the_metadata_of_a_plain_mint_have_every_field(service: Service) -> None:
    await service.market.track(TRACKED)
    await service.market.learn(TRACKED, replace(FACTS, read_at_ms=UnixMs(NOW)))
    response = await service.client.get(PATH)

    assert response.status_code == 200
    assert response.json()["data"] == {
        "mint": TRACKED,
        "name": "a name",
        "symbol": "A",
        "decimals": 6,
        "supply": "18446744073709551615",
        "program": TokenProgram.SPL,
        "mintAuthority": None,
        "freezeAuthority": None,
        "transferFeeBps": None,
        "transferHook": None,
        "permanentDelegate": None,
        "uiMultiplier": None,
        "newUiMultiplier": None,
        "newUiMultiplierAt": None,
        "nameCleaned": False,
        "lookAlikeOf": None,
        "inWords": [
            "It is a mint of the program SPL Token.",
            "No more can be made: it has no mint authority.",
            "Accounts cannot be frozen.",
        ],
        "slot": 10,
        "readAt": NOW // 1000,
    }


async def test_the_powers_of_an_issuer_are_described_in_words(service: Service) -> None:
    facts = replace(
        FACTS,
        program=TokenProgram.SPL_2022,
        mint_authority=STRANGER,
        freeze_authority=STRANGER,
        transfer_fee_bps=125,
        transfer_hook=STRANGER,
        permanent_delegate=STRANGER,
        pause_authority=STRANGER,
        name="\u202ename",
    )
    await service.market.track(TRACKED)
    await service.market.learn(TRACKED, facts)
    data = (await service.client.get(PATH)).json()["data"]

    assert data["name"] == "name"
    assert data["nameCleaned"] is True
    assert data["inWords"] == [
        "Its name or symbol holds characters that are never shown; they are left out here.",
        "It is a mint of the program Token-2022.",
        f"More can be made at any time, by {STRANGER}.",
        f"{STRANGER} can freeze accounts, so that nothing leaves them.",
        "A transfer costs 1.25 % of its amount.",
        f"The program {STRANGER} runs at every transfer, and can refuse it.",
        f"{STRANGER} can stop all transfers.",
        f"{STRANGER} can move or burn the tokens of every holder.",
    ]


async def test_a_new_multiplier_takes_effect_at_its_announced_time(service: Service) -> None:
    """The facts are read once a day, but the multiplier does not wait for the next reading."""
    begins = NOW // 1000 + 60
    scaled = ScaledUiAmount(multiplier=2.5, new_multiplier=5.0, effective_at=begins)
    await service.market.track(TRACKED)
    await service.market.learn(TRACKED, replace(FACTS, scaled_ui_amount=scaled))
    before = (await service.client.get(PATH)).json()["data"]
    service.clock.advance(59_999)
    just_before = (await service.client.get(PATH)).json()["data"]
    service.clock.advance(1)
    after = (await service.client.get(PATH)).json()["data"]

    assert (before["uiMultiplier"], before["newUiMultiplier"]) == (2.5, 5.0)
    assert before["newUiMultiplierAt"] == begins
    assert before["inWords"][-2:] == [
        (
            "Wallets show 2.5 tokens for each that the mint counts; prices and amounts here are of"
            " those that it counts."
        ),
        f"From {iso_time(UnixMs(begins * 1000))} on they show 5.",
    ]
    assert just_before["uiMultiplier"] == 2.5
    assert (after["uiMultiplier"], after["newUiMultiplier"]) == (5.0, None)
    assert after["newUiMultiplierAt"] is None
    assert "show 5 tokens" in after["inWords"][-1]


async def test_a_token_without_facts_is_404_and_an_invalid_address_400(service: Service) -> None:
    await service.market.track(TRACKED)
    for mint, status, code in (
        ("abc", 400, "INVALID_TOKEN_ADDRESS"),
        (UNTRACKED, 404, "TOKEN_NOT_FOUND"),
        (TRACKED, 404, "INSUFFICIENT_DATA"),
    ):
        response = await service.client.get(f"/v1/token/{mint}/metadata")
        assert (response.status_code, response.json()["error"]["code"]) == (status, code)
