"""The commands as one: found by name, listed in groups with an example each, and with what all of them take."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Final

import click

from scapy_mpa.cli.colours import COLOUR_WORDS, choose_colours
from scapy_mpa.cli.types import Word

#: Each is ``NAME_command`` of the module ``scapy_mpa.cli.NAME``, imported when it is asked for: in groups, with what
#: they are for, and with an example.
GROUPS: Final[dict[str, dict[str, tuple[str, str]]]] = {
    "Read captures": {
        "analyze": ("Report how the MPA connections ended, and what is wrong.", "analyze day/ --summary"),
        "fpdus": ("List every FPDU.", "fpdus a.pcap --format csv"),
        "messages": ("List the RDMAP messages, with their answers.", "messages a.pcap --opcode Write"),
        "memory": ("List the memory that each side named, and accesses outside it.", "memory a.pcap --at 100"),
        "show": ("Explain one frame or FPDU, octet by octet.", "show a.pcap --fpdu 0/initiator/3"),
        "lines": ("List the frames, one line each, to paste into a report.", "lines a.pcap --frames 1-20"),
        "startup": ("Compare MPA Request and Reply: what was offered and agreed.", "startup a.pcap"),
        "compare": ("Compare captures of two taps: what changed in between.", "compare sent.pcap received.pcap"),
        "rules": ("List the rules, or explain one.", "rules crc"),
    },
    "Pictures": {
        "plot": ("Draw one connection.", "plot a.pcap --kind lanes -o lanes.png"),
        "report": ("Write a page for a browser.", "report a.pcap -o a.html"),
    },
    "Write captures": {
        "extract": ("Copy the packets of one connection.", "extract a.pcap --connection 0 -o one.pcap"),
        "reduce": ("Write the fewest packets that show a finding.", "reduce a.pcap few.pcap --rule pad"),
        "scrub": ("Write a capture without payload and addresses.", "scrub a.pcap shared.pcap"),
    },
    "Make traffic": {
        "craft": ("Make a capture of MPA connections.", "craft --list"),
        "malform": ("Make captures of malformed traffic.", "malform --list"),
        "fuzz": ("Make any number of malformed captures.", "fuzz --count 100 -o cases/"),
    },
    "Talk to a peer": {
        "connect": ("Talk MPA as Initiator.", "connect 192.0.2.1 7471 --ulp rping --count 3"),
        "listen": ("Talk MPA as Responder.", "listen 7471 --ulp rping"),
        "probe": ("Test whether a live implementation is conformant.", "probe 192.0.2.1 7471"),
        "shell": ("Open an interactive Scapy shell with our layers.", "shell"),
    },
    "Wireshark": {
        "annotate": ("Write the packets with comments.", "annotate a.pcap b.pcapng"),
        "crosscheck": ("Compare each FPDU with tshark's.", "crosscheck a.pcap"),
        "export": ("Write a file that Wireshark dissects fully.", "export a.pcap b.pcapng"),
    },
    "Set up": {
        "completion": ("Print a script that completes commands in a shell.", "completion bash"),
    },
}
COMMANDS: Final = tuple(sorted(name for group in GROUPS.values() for name in group))

#: Modules that have another name than their command.
_MODULES = {"lines": "framelines"}
#: Commands of earlier versions, and what has taken their place.
_REPLACED = {"ulpdus": "messages (its octets: --payload, --directory)"}


#: Options that many commands have, in groups; those that a command has of its own come before them.
OPTION_GROUPS: Final[dict[str, tuple[str, ...]]] = {
    "Which connections and frames": (
        "--connection", "--direction", "--port", "--host", "--frames", "--since", "--until", "--ulp",
    ),
    "Which findings": ("--severity", "--rules", "--ignore", "--fail-on"),
    "What is read": ("--interface", "--follow", "--poll", "--stream", "--read-frames", "--join", "--esp", "--decode"),
    "Experts": ("--profile", "--assume", "--limit", "--jobs", "--cluster", "--shared"),
}  # fmt: skip


class Command(click.Command):
    """A command whose help lists options in groups, if it reads captures."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List its own options, then those that others have too."""
        if all(param.name != "frames" for param in self.params):
            super().format_options(ctx, formatter)
            return
        found: dict[str, list[tuple[str, str]]] = {"Options": [], **{title: [] for title in OPTION_GROUPS}}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx) if isinstance(param, click.Option) else None
            if record is not None:
                names = {*param.opts}
                title = next((title for title, group in OPTION_GROUPS.items() if names & {*group}), "Options")
                found[title].append(record)
        for title, records in found.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


class AllCommands(click.Group):
    """All commands."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Their names."""
        return [*COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of a name."""
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"scapy_mpa.cli.{_MODULES.get(cmd_name, cmd_name)}")
        command: click.Command = getattr(module, f"{cmd_name}_command")
        if not any(param.name == "color" for param in command.params):
            command.params.append(color_option())
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command, its name and its arguments; refuses an option given twice that counts once."""
        if args and args[0] in _REPLACED:
            raise click.UsageError(f"{args[0]} no longer exists: use {_REPLACED[args[0]]}", ctx)
        if args and args[0] not in COMMANDS and not args[0].startswith("-") and not ctx.resilient_parsing:
            from difflib import get_close_matches

            like = get_close_matches(args[0], COMMANDS, n=1)
            hint = f"did you mean {like[0]}?" if like else f"the commands are {', '.join(COMMANDS)}"
            raise click.UsageError(f"there is no command {args[0]!r}; {hint}", ctx)
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None and not ctx.resilient_parsing:
            _check_words(command, click.Context(command, info_name=name, parent=ctx), rest)
        return name, command, rest

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List them in groups: what each is for, and an example."""
        width = max(map(len, COMMANDS))
        for title, group in GROUPS.items():
            with formatter.section(title):
                for name, (what, example) in group.items():
                    formatter.write_text(f"{name:<{width}}  {what}")
                    if formatter.width >= 60:
                        formatter.write_text(f"{'':<{width}}  $ scapy-mpa {example}")


def _check_words(command: click.Command, within: click.Context, rest: Sequence[str]) -> None:
    values, _, given = command.make_parser(within).parse_args(args=[*rest])
    words = [param for param in command.params if isinstance(param, click.Argument)]
    first, last = (values.get(words[at].name or "") if words else None for at in (0, -1))
    is_one_missing = len(words) > 1 and words[0].nargs < 0 and not isinstance(first, tuple) and isinstance(last, str)
    if is_one_missing and values.get("interface") is None:
        # click takes the last word first, and would miss the captures.
        raise click.UsageError(f"Missing argument '{words[-1].make_metavar(within)}'.", within)
    for option in given:
        counts_once = isinstance(option, click.Option) and not (option.multiple or option.is_flag or option.count)
        if counts_once and given.count(option) > 1:
            raise click.UsageError(f"{option.opts[-1]} is given twice, but takes one value", within)


def color_option() -> click.Option:
    """Return the option that all commands have."""
    return click.Option(
        ["--color"],
        type=Word(COLOUR_WORDS),
        default="auto",
        expose_value=False,
        callback=choose_colours,
        help="auto: on a terminal, unless NO_COLOR is set or TERM is dumb.",
    )
