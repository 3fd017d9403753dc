#!/usr/bin/env python3
"""Writes docs/reference/metrics.md from the places in the source where metrics are made: metrics.py [--check].

A metric is a call with a name "millstream_..." followed by its help text. Labels are the {"name", ...} pairs of the same call; the
engine's helper functions give every metric of its file the label `processor`.
"""
import re
import sys

from generated import ROOT, finish

CALL = re.compile(r'(\w+)\(\s*"(millstream_[a-z0-9_]+)",\s*((?:"(?:[^"\\]|\\.)*"\s*)+)')
FOLDERS = {"sidecar/engine": "Processing", "sidecar/server": "Workers", "sidecar/host": "State", "sidecar/store": "State", "common/log/embedded": "Embedded log", "common/log/kafka": "Kafka",
           "common/base": "Process", "cli": "Process", "sidecar": "Process", "common/http": "HTTP", "operator": "Operator"}

HEAD = """# Metrics

<!-- Written by tools/docs/metrics.py from the source; do not edit. -->

`GET /metrics` on the HTTP port (`millstream run --http`, [HTTP](http.md)) gives them in the Prometheus text format. Times are in seconds, sizes in bytes; what ends in `_total` only grows. A
metric with a label that depends on what happened appears when it first happened.

What to watch: `millstream_lag_records` (does it keep up), `millstream_record_failures_total` and `millstream_dead_letters_total` (is data bad), `millstream_worker_disconnects_total`
(does the program crash), `millstream_transactions_aborted_total` (is the log in trouble). The Helm chart has [alerts](../../helm/millstream/files/alerts.yaml) on them, each with a
[runbook](../runbooks/README.md), and a [Grafana dashboard](../../helm/millstream/files/dashboard.json).

The operator has metrics of its own (below) at its port 8080.

Those named `millstream_operator_...` are of the Kubernetes operator, at `/metrics` of its own HTTP port.

"""


def kind_of(call, name, rest):
    if "istogram" in call or re.match(r"[^)]*\{\s*[\d.]+\s*,", rest) and not name.endswith("_total"):
        return "histogram"
    return "counter" if name.endswith("_total") else "gauge"


def metrics():
    found = {}
    for path in sorted(ROOT.glob("**/*.cc")):
        where = path.relative_to(ROOT).as_posix()
        if where.startswith(("build/", "tests/", "bench/")) or where.endswith("_test.cc"):
            continue
        text = path.read_text(encoding="utf-8")
        common = re.findall(r'MetricLabels \w+ = \{\{"(\w+)"', text)
        for match in CALL.finditer(text):
            call, name, help_text = match.groups()
            rest = re.split(r';|"millstream_', text[match.end():], maxsplit=1)[0]
            labels = sorted(set(re.findall(r'\{"(\w+)",', rest)) | (set(common) if "labels" in rest or call in ("counter", "gauge") else set()))
            folder = where.rpartition("/")[0]
            while folder and folder not in FOLDERS:
                folder = folder.rpartition("/")[0]
            text_of_help = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', help_text))
            found[name] = (FOLDERS.get(folder, "Other"), kind_of(call, name, rest), labels, text_of_help)
    return found


def page():
    found = metrics()
    out = [HEAD]
    for group in dict.fromkeys(list(FOLDERS.values()) + ["Other"]):
        rows = [(name, *facts[1:]) for name, facts in sorted(found.items()) if facts[0] == group]
        if rows:
            out.append(f"## {group}\n\n| metric | kind | labels | meaning |\n|---|---|---|---|\n")
            out += [f"| `{name}` | {kind} | {', '.join(f'`{label}`' for label in labels)} | {text} |\n" for name, kind, labels, text in rows]
            out.append("\n")
    return "".join(out).rstrip() + "\n"


def main():
    text = page()
    return finish("metrics.md", text, "python3 tools/docs/metrics.py", f"{len(metrics())} metrics")


if __name__ == "__main__":
    sys.exit(main())
