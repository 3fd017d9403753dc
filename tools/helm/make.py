#!/usr/bin/env python3
"""Writes what is made from other files for helm/millstream and install/: make.py [--check] [--helm PROGRAM].

- helm/millstream/files/streamprocessors.yaml: a copy of crds/streamprocessors.yaml (a chart holds only its own files)
- helm/millstream/files/dashboard.json: from dashboard.py
- install/millstream.yaml: the chart with its default values as plain YAML; without --helm only the resource definition in it

With --check nothing is written: differences are named, and the exit code is 1.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from dashboard import dashboard  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHART = "helm/millstream"
NAMESPACE = "millstream-system"
PLAIN = "install/millstream.yaml"
# The oldest that Chart.yaml allows: what is rendered must be right there.
KUBE_VERSION = "1.29.0"

HEAD = f"""# The Millstream operator as plain YAML: the chart with its default values. Written by tools/helm/make.py; do not edit.
#
#   kubectl apply --server-side -f millstream.yaml
#
# Other values: `helm template millstream helm/millstream -n {NAMESPACE} --set ...`, or kustomize (kustomization.yaml here).
---
apiVersion: v1
kind: Namespace
metadata:
  name: {NAMESPACE}
  labels:
    app.kubernetes.io/part-of: millstream
    pod-security.kubernetes.io/enforce: restricted
"""


def plain_yaml(helm):
    """The chart without what only Helm understands: its labels, its annotations, its tests."""
    text = subprocess.run([helm, "template", "millstream", str(ROOT / CHART), "--namespace", NAMESPACE, "--skip-tests", "--kube-version", KUBE_VERSION],
                          check=True, stdout=subprocess.PIPE, text=True).stdout
    text = re.sub(r"^ +helm\.sh/chart: .*\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"^ +annotations:\n +helm\.sh/resource-policy: keep\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"^( +app\.kubernetes\.io/managed-by:) Helm$", r"\1 kubectl", text, flags=re.MULTILINE)
    text = re.sub(r"^# Source: .*\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"\n+---\n", "\n---\n", text)
    return HEAD + text


NAME = "metadata:\n  name: streamprocessors.millstream.dev\n"


def with_definition(plain, source):
    """The plain YAML with this resource definition in the place of the one in it; the labels stay."""
    documents = plain.split("---\n")
    for index, document in enumerate(documents):
        if "kind: CustomResourceDefinition\n" in document:
            labels = re.search(re.escape(NAME) + r"(  labels:\n(?:    .*\n)+)", document)[1]
            documents[index] = source.replace(NAME, NAME + labels)
    return "---\n".join(documents)


def files_of_chart():
    source = (ROOT / "crds/streamprocessors.yaml").read_text(encoding="utf-8")
    return {
        f"{CHART}/files/streamprocessors.yaml": source,
        f"{CHART}/files/dashboard.json": json.dumps(dashboard(), indent=2) + "\n",
        PLAIN: with_definition((ROOT / PLAIN).read_text(encoding="utf-8"), source),
    }


def settle(files, check):
    """Writes what differs; returns what does, when it only checks."""
    stale = []
    for path, text in files.items():
        file = ROOT / path
        if file.exists() and file.read_text(encoding="utf-8") == text:
            continue
        stale.append(path)
        if not check:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
    return stale if check else []


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 if something is not current")
    parser.add_argument("--helm", help="render install/ with this helm")
    arguments = parser.parse_args()
    stale = settle(files_of_chart(), arguments.check)
    if arguments.helm:  # behind the chart's own files, which it reads
        stale += settle({PLAIN: plain_yaml(arguments.helm)}, arguments.check)
    for path in stale:
        print(f"{path} is not what tools/helm/make.py{' --helm helm' if path == PLAIN else ''} makes of its sources: run it")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
