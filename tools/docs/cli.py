#!/usr/bin/env python3
"""Writes docs/reference/{cli,sidecar,kubectl}.md from the programs' own help: cli.py [--check]. Needs the programs on the PATH (./dev shell has them)."""
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


SIDECAR = """# millstream-sidecar

<!-- Written by tools/docs/cli.py from the program's help; do not edit. -->

The program beside the worker in a pod; on a machine `millstream run` is the easier way to the same. Why it is as it is: [the sidecar in a pod](../design/0007-sidecar-in-a-pod.md).

"""

KUBECTL = """# kubectl millstream

<!-- Written by tools/docs/cli.py from the program's help; do not edit. -->

kubectl's plugin for the processors of a cluster: the program `millstream` under the name `kubectl-millstream`, on the PATH. [Why](../design/0007-sidecar-in-a-pod.md).

| command | rights it needs, in the processor's namespace |
|---|---|
| `status`, `tasks`, `lag`, `state` | `get`, `list` on `streamprocessors.millstream.dev`; `list` on `pods`; `get` on `pods/proxy` |
| `pause`, `resume`, `restart` | `get`, `patch` on `streamprocessors.millstream.dev` |
| `reset`, `dead-letters` | `get` on `streamprocessors.millstream.dev` and `statefulsets.apps`; `create`, `delete` on `jobs.batch`; `list` on `pods`; `get` on `pods/log` |
| `report` | what `status` needs; `get` on `statefulsets.apps`; `list` on `jobs.batch`, `persistentvolumeclaims`, `events.events.k8s.io`; `get` on `pods/log`. What may not be read is named in it |

`pods/proxy` lets a person read whatever the ports of pods answer: the state of processors, too. No command needs a right on Secrets: Jobs mount those of the processor.

"""

# Page, program, how people write it, head.
PAGES = [("cli.md", "millstream", "millstream", HEAD), ("sidecar.md", "millstream-sidecar", "millstream-sidecar", SIDECAR),
         ("kubectl.md", "kubectl-millstream", "kubectl millstream", KUBECTL)]


def help_of(program, words):
    result = subprocess.run([program, *words, "--help"], stdout=subprocess.PIPE, check=True, text=True)
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


def sections(program, shown, words):
    text = help_of(program, words)
    title = " ".join([shown, *words])
    yield f"## {title}\n\n```text\n{text}\n```\n"
    for name in subcommands(text):
        yield from sections(program, shown, [*words, name])


def main():
    code = 0
    for page, program, shown, head in PAGES:
        text = head + "\n".join(sections(program, shown, []))
        code = finish(page, text, "./dev shell  and  python tools/docs/cli.py", f"{len(text.splitlines())} lines") or code
    return code


if __name__ == "__main__":
    sys.exit(main())
