"""What a browser says it is, in words."""

from typing import Final

# The first that occurs decides: every browser also names those it wants to be taken for.
BROWSERS: Final = (
    ("Edg/", "Edge"),
    ("OPR/", "Opera"),
    ("Firefox/", "Firefox"),
    ("HeadlessChrome/", "Chromium"),
    ("Chromium/", "Chromium"),
    ("Chrome/", "Chrome"),
    ("Safari/", "Safari"),
    ("curl/", "curl"),
    ("python-httpx/", "a Python script"),
)
SYSTEMS: Final = (
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Android", "Android"),
    ("Windows", "Windows"),
    ("CrOS", "ChromeOS"),
    ("Mac OS X", "macOS"),
    ("Linux", "Linux"),
)


def describe_agent(agent: str) -> str:
    """Return a short name of the browser that sent *agent* as its User-Agent."""
    browser = _first(BROWSERS, agent)
    system = _first(SYSTEMS, agent)
    if browser and system:
        return f"{browser} on {system}"
    return browser or system or "An unknown browser"


def _first(names: tuple[tuple[str, str], ...], agent: str) -> str:
    return next((name for sign, name in names if sign in agent), "")
