"""Names of routers and trading bots, for people.

Their direct calls are read as below the routers of the table.  A program of this list that
exchanges tokens itself is reported by its address, as every program that is not in the table is.
"""

from typing import Final

ROUTERS: Final = {
    "JUP4Fb2cqiRUcaTHdrPC8h2gNsA2ETXiPDD33WcGuJB": "Jupiter v4",
    "JUP3c2Uh3WA4Ng34tw6kPd2G4C5BB21Xo36Je1s32Ph": "Jupiter v3",
    "JUP2jxvXaqu7NQY1GmNF4m1vodw12LVXYxbFL2uJvfo": "Jupiter v2",
    "Sett1erwx2eqT5A8uvu8GBxDFT2W5TNnhirL7hLmb8m": "0x Settler",
    "REALp6iMBDTctQqpmhBo4PumwJGcybbnDpxtax3ara3": "Byreal router",
    "GMGNreQcJFufBiCTLDBgKhYEfEe9B454UjpDr5CaSLA1": "GMGN 2",
    "AveaiuA1emN71q9mS2QQ9BEWNAAHmp8sHSvwLFHQjufM": "Ave",
    "b1oomGGqPKGD6errbyfbVMBuzSC8WtAAYo8MwNafWW1": "Bloom",
    "BANANAjs7FJiPQqJTGFzkZJndT9o7UmKiYYGaJz6frGu": "BananaGun",
    "MaestroAAe9ge5HTc64VbBQZ6fP77pwvrhM8i1XWSAx": "Maestro",
    "minTcHYRLVPubRK8nt6sqe2ZpWrGDLQoNLipDJCGocY": "Mintech",
    "Prism8hsRo6Ww5jiN5Zeh3YDPLZHqHduCPSAV7JF7qv": "Prism",
}


def named(program: str) -> str:
    """Return *program*, an address, in brackets behind the name of the router if it has one."""
    name = ROUTERS.get(program)
    return program if name is None else f"{name} ({program})"
