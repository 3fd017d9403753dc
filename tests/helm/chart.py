"""`helm template` of the chart, as objects."""

import json
import pathlib
import subprocess
import sys

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "testbed" / "cluster"))
import programs  # noqa: E402

CHART = ROOT / "helm" / "millstream"
RELEASE, NAMESPACE = "millstream", "millstream-system"
NAME = "millstream-operator"
CRD = "streamprocessors.millstream.dev"


class Refused(Exception):
    """helm refused the values."""


def helm(*arguments, check=True):
    done = subprocess.run([str(programs.home() / "helm"), *map(str, arguments)], capture_output=True, text=True, check=False, timeout=300)
    if check and done.returncode != 0:
        raise Refused(done.stderr)
    return done


def sets(values):
    """Values as --set-json arguments: {"a.b": 1} or nested."""
    return [part for name, value in values.items() for part in ("--set-json", f"{name}={json.dumps(value)}")]


def text(values=None, release=RELEASE, namespace=NAMESPACE):
    return helm("template", release, CHART, "--namespace", namespace, *sets(values or {})).stdout


def render(values=None, **where):
    """Every object of the release, `helm test` pods included."""
    return [each for each in yaml.safe_load_all(text(values, **where)) if each]


def of(objects, kind, name=None):
    """The one object of this kind (and name)."""
    found = [each for each in objects if each["kind"] == kind and (name is None or each["metadata"]["name"] == name)]
    assert len(found) == 1, f"{kind} {name or ''}: {[each['metadata']['name'] for each in found]}"
    return found[0]


def kinds(objects):
    return sorted(each["kind"] for each in objects)


def default_values():
    return yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
