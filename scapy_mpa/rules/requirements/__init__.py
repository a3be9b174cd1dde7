"""Every requirement of the specifications: which of our rules it is, or why there is none.

One row for each occurrence of MUST, SHALL, SHOULD, REQUIRED or RECOMMENDED, negated or not, in the order of the text,
so that it can be counted; in the RFCs above MPA also of MAY and OPTIONAL. What each asks for is in our own words. Left
out is only the paragraph of each RFC that says what these words mean. Nothing here is needed to analyse a capture.
"""

from __future__ import annotations

from scapy_mpa.framing.profiles import PROFILES
from scapy_mpa.rules.requirements.culley_02 import CULLEY_02
from scapy_mpa.rules.requirements.rddp_01 import RDDP_01
from scapy_mpa.rules.requirements.rfc5040 import RFC_5040
from scapy_mpa.rules.requirements.rfc5041 import RFC_5041
from scapy_mpa.rules.requirements.rfc5042 import RFC_5042
from scapy_mpa.rules.requirements.rfc5044 import RFC_5044
from scapy_mpa.rules.requirements.rfc6581 import RFC_6581
from scapy_mpa.rules.requirements.rfc7306 import RFC_7306
from scapy_mpa.rules.requirements.row import Row, Sections
from scapy_mpa.rules.requirements.unobservable import REASONS

__all__ = ["REASONS", "REQUIREMENTS", "TITLES", "Row", "Sections"]

#: By specification: the MPA specifications, newest first, then what they carry.
REQUIREMENTS: dict[str, Sections] = {
    "rfc5044": RFC_5044,
    "rfc6581": RFC_6581,
    "rddp-01": RDDP_01,
    "culley-02": CULLEY_02,
    "rfc5040": RFC_5040,
    "rfc5041": RFC_5041,
    "rfc7306": RFC_7306,
    "rfc5042": RFC_5042,
}

#: What each is called where a clause is named.
TITLES: dict[str, str] = {
    name: PROFILES[name].title if name in PROFILES else f"RFC {name.removeprefix('rfc')}" for name in REQUIREMENTS
}
