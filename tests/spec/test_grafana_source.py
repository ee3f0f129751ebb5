"""The documented Grafana query is sent, and its answer read, as Grafana's JSON source would do."""

import json
import re
from typing import Any, Final

from series_service import BEGIN_S, TOKEN, SeriesService

from support.deployment import ROOT
from support.scenes.service import bearer

GUIDE: Final = ROOT / "docs" / "api" / "series.md"
READ: Final = {"timestamp_epoch_s": int, "number": float}


def documented_query(since: int, until: int) -> dict[str, Any]:
    """Return the documented query, with the variables of Grafana filled in."""
    (text,) = re.findall(r"## Grafana\n.*?```json\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    text = text.replace("${__from:date:seconds}", str(since)).replace("MINT", TOKEN)
    return dict(json.loads(text.replace("${__to:date:seconds}", str(until))))


async def test_the_documented_query_reads_the_candles_of_a_panel(market: SeriesService) -> None:
    for minute in range(0, 60, 5):
        await market.trade(60 * minute, 1.0 + minute)
    token = await market.service.issue(1)
    query = documented_query(BEGIN_S + 600, BEGIN_S + 1_799)
    params = {each["key"]: each["value"] for each in query["url_options"]["params"]}

    answer = await market.client.request(
        query["url_options"]["method"],
        query["url"].removeprefix("https://api.example"),
        params=params,
        headers=bearer(token),
    )

    assert answer.status_code == 200, answer.text
    rows = answer.json()
    for name in query["root_selector"].split("."):
        rows = rows[name]
    frame = {
        column["text"]: [READ[column["type"]](row[column["selector"]]) for row in rows]
        for column in query["columns"]
    }
    starts = range(BEGIN_S - BEGIN_S % 300, BEGIN_S + 1_800, 300)
    assert frame["time"] == [at for at in starts if BEGIN_S + 600 <= at <= BEGIN_S + 1_799]
    assert frame["close"] == [1.0 + (at + 299 - BEGIN_S) // 300 * 5 for at in frame["time"]]
    assert {len(values) for values in frame.values()} == {len(frame["time"])}
    assert await market.service.left(token) == 0
