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

#: Into how many parts the cases of a test are dealt out of which nothing else is said here.
PARTS = 20

#: Into how many parts the cases of each test are dealt out whose id begins so; the longest beginning counts.
SAMPLED = {
    "tests/cli/test_signals.py::test_at_any_moment": 60,
    "tests/live/test_bad_network.py": 16,
    "tests/live/test_driver.py::test_listen_survives": 50,
    "tests/layers/test_session.py::test_packets_know": 24,
    "tests/layers/test_session.py::test_placed_order": 12,
    "tests/layers/test_session.py::test_what_is_written": 24,
    "tests/page/test_page.py::test_every_capture": 20,
    "tests/page/test_page.py::test_pages_of_mutated": 20,
    "tests/probe/test_foreign.py::test_a_conforming_peer": 96,
    "tests/probe/test_foreign.py::test_a_conforming_initiator": 16,
    # Captures cut and lossy, and what makes them by the number.
    "tests/receive/test_attack.py::test_draws": 25,
    "tests/receive/test_cuts_made.py::test_what_once_went_wrong": 1,
    # One test for each number, all of them short.
    "tests/receiver/test_numbers.py": 1,
    # Hostile input: floods, and mutated captures by the hundred.
    "tests/hostile/test_floods.py": 16,
    "tests/hostile/test_overlaps.py::test_work_is_bounded": 40,
}

#: Tests of few cases that take long, and are run by `--all` alone.
LONG = (
    "tests/capture/test_joining.py::test_a_thousand_files_by_editcap",
    "tests/capture/test_source.py::test_a_bomb_is_read_again_as_far_as_it_was_read",
    "tests/cli/test_ongoing.py::test_a_folder_into_which_a_rotation_goes",
    "tests/cluster/test_dask.py::test_two_gigabytes_in_two_hundred_files",
    "tests/cluster/test_dask.py::test_workers_that_die_again_and_again",
    "tests/cluster/test_equal.py::test_messages_of_many_connections",
    "tests/compare/test_appendix_b.py::test_the_claims_hold",
    "tests/craft/test_benchmark.py::test_a_round_on_every_scenario",
    "tests/layers/test_session.py::test_memory_is_flat",
    "tests/live/test_commands.py::test_a_gigabyte_takes_no_memory",
    "tests/live/test_commands.py::test_listen_takes_no_memory_for_fuzzed_clients",
    "tests/live/test_interface.py::test_two_million_packets",
    "tests/messages/test_formats.py::test_many_rows",
    "tests/page/test_browser.py::test_every_page",
    "tests/probe/test_breaking.py::test_exactly_these_fail",
    "tests/probe/test_coverage.py::test_hits_at_one_place_are_one",
    "tests/probe/test_raw.py::test_a_bad_network",
    "tests/probe/test_raw.py::test_every_case",
    "tests/probe/test_run.py::test_a_draft_s_implementation_takes_its_own",
    "tests/probe/test_run.py::test_a_peer_that_rejects_everything",
    "tests/probe/test_run.py::test_it_is_restarted_and_goes_on",
    "tests/receive/test_long.py::test_reordered_and_repeated_at_each_wrap",
    "tests/receiver/test_floods.py::test_resident_memory",
    "tests/report/test_shares.py::test_shares_of_many_connections_are_the_whole_and_none_is_empty",
    "tests/test_site.py::test_the_site_builds_without_a_warning",
    "tests/wireshark/test_annotate.py::test_memory_does_not_follow_the_capture",
)

#: Of a hundred examples of a property, as many as `make test` gives it.
EXAMPLES = 10


def parts_of(test: str) -> int:
    """Into how many parts the cases of a test are dealt out."""
    begins = [begin for begin in SAMPLED if test.startswith(begin)]
    return SAMPLED[max(begins, key=len)] if begins else PARTS


def sample(test: str, cases: Sequence[Case], seed: int) -> list[Case]:
    """The cases of a test that a seed takes, in their order: at least one, but none of a test in `LONG`."""
    if test in LONG:
        return []
    parts = min(parts_of(test), len(cases))
    shuffled = random.Random(test).sample(range(len(cases)), len(cases))
    return [cases[at] for at in sorted(shuffled[seed % parts :: parts])]


def examples(count: int) -> int:
    """`max_examples` of a property that `--all` gives `count` examples."""
    return max(1, count * int(settings().max_examples) // 100)
