#!/usr/bin/env python3
"""Writes docs/reference/cli.md from the program's own help: cli.py [--check]. Needs `millstream` on the PATH (./dev shell has it)."""
import re
import subprocess
import sys

from generated import finish

HEAD = """# The command line

<!-- Written by tools/docs/cli.py from the program's help; do not edit. -->

`millstream` runs processors and looks into what they read, keep and write. All commands but `run` work from a second terminal while `run` holds the data folder, and without it; with
`--kafka` they work on a Kafka cluster ([commands and Kafka](../guides/kafka-commands.md)). The data folder is `.millstream` in the current folder unless `--data` or `MILLSTREAM_DATA` says otherwise. `-o json` gives output for programs, errors included.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | the command was understood and failed; the reason is on standard error |
| 2 | wrong arguments; nothing was done |
| 130 | cut short by a second Ctrl-C |

"""


def help_of(words):
    result = subprocess.run(["millstream", *words, "--help"], stdout=subprocess.PIPE, check=True, text=True)
    return result.stdout.strip()


def subcommands(text):
    """Names in the list under "Subcommands:" (or a group of commands)."""
    names, inside = [], False
    for line in text.splitlines():
        if re.match(r"^\S.*:$", line):
            inside = "ommands" in line
        elif inside:
            name = re.match(r"^  ([a-z][a-z-]*)(\s|$)", line)
            if name:
                names.append(name.group(1))
    return names


def sections(words):
    text = help_of(words)
    title = " ".join(["millstream", *words])
    yield f"## {title}\n\n```text\n{text}\n```\n"
    for name in subcommands(text):
        yield from sections([*words, name])


def main():
    text = HEAD + "\n".join(sections([]))
    return finish("cli.md", text, "./dev shell  and  python tools/docs/cli.py", f"{len(text.splitlines())} lines")


if __name__ == "__main__":
    sys.exit(main())
