"""What part of the suite `make test` runs: some cases of the long tables, fewer examples of each property.

All that it leaves out stands here. The cases of a test are shuffled, always in the same way, and dealt out into as many
parts as `SAMPLED` says; a run takes the part that `--sample-seed` names. So a seed gives the same cases in every
process and on every machine, and as many seeds in a row as there are parts give all of them. `--all` runs everything,
and a test that is named (`pytest FILE::TEST`) is run whole.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

from hypothesis import settings

Case = TypeVar("Case")

#: Into how many parts the cases of each test are dealt out whose id begins so; the longest beginning counts.
SAMPLED = {
    # Captures, each in many forms.
    "tests/capture/test_conversions.py::test_tshark": 4,
    "tests/capture/test_fragments.py::test_fragments_in_tunnels": 4,
    "tests/capture/test_fragments.py::test_in_fragments": 4,
    "tests/capture/test_joining.py::test_a_rotation": 4,
    "tests/capture/test_joining.py::test_an_fpdu": 3,
    "tests/capture/test_conversions.py::test_linked_anew": 5,
    "tests/capture/test_files.py::test_linked_anew": 4,
    "tests/capture/test_link.py::test_ipv6": 3,
    "tests/capture/test_link.py::test_link_types": 3,
    "tests/capture/test_pcapng.py::test_cut_anywhere": 5,
    "tests/capture/test_source.py::test_compressed": 4,
    "tests/capture/test_streams.py::test_every_shipped": 3,
    "tests/capture/test_streams.py::test_files_that_cannot": 3,
    "tests/capture/test_streams.py::test_what_does_not_go": 8,
    "tests/capture/test_tunnel.py::test_in_a_tunnel": 8,
    "tests/catalogue/test_closed_loop.py::test_the_analysis": 3,
    "tests/catalogue/test_command.py::test_each_is_explained": 8,
    "tests/cluster/test_dask.py::test_a_worker": 2,
    "tests/cluster/test_dask.py::test_the_command": 3,
    "tests/cluster/test_dask.py::test_what_does_not_go": 6,
    "tests/cluster/test_dask.py::test_workers_of_this_machine": 3,
    "tests/cli/test_file_names.py::test_json": 3,
    "tests/cli/test_file_names.py::test_what_is_printed": 10,
    "tests/cli/test_group.py::test_help_fits": 4,
    "tests/cli/test_rules.py::test_each_is_explained": 5,
    "tests/cli/test_signals.py::test_at_any_moment": 20,
    "tests/cli/test_show.py::test_a_frame_is_shown": 3,
    "tests/foreign/test_foreign.py::test_nothing_is_claimed": 4,
    "tests/layers/test_fpdu.py::test_every_fpdu": 3,
    "tests/live/test_bad_network.py": 16,
    "tests/live/test_compare_network.py": 4,
    "tests/live/test_catalogue.py::test_the_endpoint_raises": 4,
    "tests/live/test_endpoint.py::test_pairwise": 3,
    "tests/live/test_driver.py::test_listen_survives": 50,
    "tests/live/test_driver.py::test_markers_crc": 2,
    "tests/live/test_rdmap.py::test_segments_that_are": 6,
    "tests/layers/test_packet.py::test_every_fpdu": 3,
    "tests/layers/test_fromcapture.py::test_what_was_said": 4,
    "tests/layers/test_session.py::test_delivered_order": 6,
    "tests/layers/test_session.py::test_packets_know": 24,
    "tests/layers/test_session.py::test_placed_order": 12,
    "tests/layers/test_session.py::test_what_is_written": 24,
    "tests/page/test_browser.py::test_every_page": 100,
    "tests/page/test_page.py::test_every_capture": 20,
    "tests/page/test_page.py::test_pages_of_mutated": 20,
    "tests/plot/test_pictures.py::test_every_capture": 10,
    "tests/probe/test_breaking.py::test_exactly_these_fail": 6,
    "tests/probe/test_run.py::test_our_initiator": 2,
    "tests/probe/test_run.py::test_our_responder_passes": 4,
    "tests/probe/test_run.py::test_our_responder_with": 3,
    "tests/report/test_formats.py::test_reports_and_records": 3,
    "tests/report/test_records.py::test_some_records": 4,
    "tests/wireshark/test_crosscheck.py::test_nothing_is_unexplained": 4,
    "tests/wireshark/test_export.py::test_tshark": 3,
    # Captures cut and lossy, and what makes them by the number.
    "tests/craft/test_injecting.py::test_the_analysis_finds": 3,
    "tests/craft/test_scenarios.py::test_the_analysis_finds": 3,
    "tests/receive/test_attack.py::test_draws": 25,
    "tests/receive/test_attack.py::test_what_tcp_would": 6,
    "tests/receive/test_cuts": 5,
    "tests/receive/test_cuts_made.py::test_what_once_went_wrong": 1,
    "tests/receive/test_diagnosis.py::test_each_deviation": 3,
    "tests/receive/test_midstream.py::test_random_octets": 4,
    "tests/receive/test_silent_drop.py::test_what_was_dropped": 4,
    "tests/report/test_labels.py::test_messages_wherever": 4,
    "tests/rules/test_ddp.py::test_each_is_told": 3,
    "tests/receive/test_tcp.py::test_whatever_happens": 3,
    # Hostile input: floods, and mutated captures by the hundred.
    "tests/hostile/test_cases.py": 2,
    "tests/hostile/test_floods.py": 8,
    "tests/hostile/test_mutated.py": 4,
    "tests/hostile/test_overlaps.py::test_a_checksum": 3,
    "tests/hostile/test_overlaps.py::test_work_is_bounded": 3,
    "tests/system/test_ending.py::test_at_every_step": 3,
    "tests/test_compiled.py::test_records_are_read_alike": 3,
    # Work and memory that do not follow the length of a capture.
    "tests/receive/test_long.py": 2,
    "tests/report/test_work.py::test_work_is_linear": 2,
}

#: Tests of few cases that take long, and are run by `--all` alone.
LONG = (
    "tests/cluster/test_dask.py::test_two_gigabytes_in_two_hundred_files",
    "tests/layers/test_session.py::test_memory_is_flat",
    "tests/live/test_commands.py::test_a_gigabyte_takes_no_memory",
    "tests/live/test_interface.py::test_two_million_packets",
    "tests/probe/test_raw.py::test_a_bad_network",
    "tests/probe/test_raw.py::test_every_case",
    "tests/receive/test_diagnosis.py::test_the_beginnings_of_few_are_kept",
    "tests/report/test_shares.py::test_shares_of_many_connections_are_the_whole_and_none_is_empty",
    "tests/test_site.py::test_the_site_builds_without_a_warning",
    "tests/wireshark/test_annotate.py::test_memory_does_not_follow_the_capture",
)

#: Of a hundred examples of a property, as many as `make test` gives it.
EXAMPLES = 15


def parts_of(test: str) -> int:
    """Into how many parts the cases of a test are dealt out."""
    begins = [begin for begin in SAMPLED if test.startswith(begin)]
    return SAMPLED[max(begins, key=len)] if begins else 1


def sample(test: str, cases: Sequence[Case], seed: int) -> list[Case]:
    """The cases of a test that a seed takes, in their order: at least one, but none of a test in `LONG`."""
    if test in LONG:
        return []
    parts = min(parts_of(test), len(cases))
    shuffled = random.Random(test).sample(range(len(cases)), len(cases))
    return [cases[at] for at in sorted(shuffled[seed % parts :: parts])]


def examples(count: int) -> int:
    """`max_examples` of a property that `--all` gives `count` examples."""
    return max(1, count * settings().max_examples // 100)
