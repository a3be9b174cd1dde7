"""Hypothesis strategies over hostile captures: what shrinks is the list of mutations and the seeds of each."""

from __future__ import annotations

from hypothesis import strategies as st

from scapy_mpa.values.assumptions import NOTHING, Assumptions
from scapy_mpa.values.limits import DEFAULT_LIMITS, Limits
from tests.hostile.examine import TIGHT
from tests.hostile.files import FILE_MUTATIONS, LAYOUTS, Case
from tests.hostile.mutate import MUTATIONS
from tests.hostile.samples import samples

_seeds = st.integers(0, (1 << 32) - 1)


def _several(names: list[str], most: int) -> st.SearchStrategy[tuple[tuple[str, int], ...]]:
    return st.lists(st.tuples(st.sampled_from(names), _seeds), max_size=most).map(tuple)


cases: st.SearchStrategy[Case] = st.builds(
    Case,
    sample=st.sampled_from([sample.name for sample in samples()]),
    seed=_seeds,
    mutations=_several(list(MUTATIONS), 8),
    layout=st.sampled_from(LAYOUTS),
    file_mutations=_several(list(FILE_MUTATIONS), 2),
)

_number = st.integers(1, 5000)
limits: st.SearchStrategy[Limits] = st.one_of(
    st.just(DEFAULT_LIMITS),
    st.just(TIGHT),
    st.builds(Limits, *[_number] * len(Limits._fields)),
    st.builds(
        Limits,
        **{name: _number for name in Limits._fields if name != "total_octets"},
        total_octets=st.just(DEFAULT_LIMITS.total_octets),
    ),
)

assumptions: st.SearchStrategy[Assumptions] = st.one_of(
    st.just(NOTHING),
    st.builds(
        Assumptions,
        profile=st.sampled_from([None, "culley-02", "rddp-01", "rfc5044", "rfc6581"]),
        markers=st.sampled_from([None, "none", "initiator", "responder", "both"]),
        crc=st.sampled_from([None, True, False]),
        start=st.lists(_seeds, max_size=2).map(tuple),
    ),
)
