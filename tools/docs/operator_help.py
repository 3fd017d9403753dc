#!/usr/bin/env python3
"""Writes docs/reference/operator.md from the operator's own help: operator_help.py [--check]. Needs `millstream-operator` on the PATH (./dev shell has it)."""
import subprocess
import sys

from generated import finish

HEAD = """# millstream-operator

<!-- Written by tools/docs/operator_help.py from the program's help; do not edit. -->

The Kubernetes operator: makes what StreamProcessors ask for, and keeps their status. It finds the API server as `kubectl` does: `--kubeconfig`, the file of `KUBECONFIG`, the service account of
its pod, `~/.kube/config`. Two of them may run at once: the one that holds the lease works, the other keeps its caches warm and takes over within 15 s, at once when the first ends in order.

| path | what |
|---|---|
| `/healthz` | 200; 503 when only a restart helps. For a liveness probe |
| `/readyz` | 200 when everything it watches is known, whether it leads or not; else 503 and what is missing |
| `/metrics` | [metrics](metrics.md) named `millstream_operator_...`, in the Prometheus text format |

SIGTERM ends the passes under way and releases the lease, within 20 s. A lost lease and an API server that is away end nothing: no restart, only delay.

| exit code | meaning |
|---|---|
| 0 | ended by SIGTERM or SIGINT; `--probe`: the answer was 2xx |
| 1 | the configuration cannot be used, the HTTP port is taken, or a pass did not end within 20 s of SIGTERM; the log says which |
| 2 | wrong arguments |

```text
"""


def main():
    result = subprocess.run(["millstream-operator", "--help"], stdout=subprocess.PIPE, check=True, text=True)
    text = HEAD + result.stdout.strip() + "\n```\n"
    return finish("operator.md", text, "./dev shell  and  python tools/docs/operator_help.py", f"{len(text.splitlines())} lines")


if __name__ == "__main__":
    sys.exit(main())
