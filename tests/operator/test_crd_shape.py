"""The resource itself on the real API server: what it is made of, what people see, what they can change."""

import json
import pathlib

import crd
import manifests
import pytest
from api import ApiError

ROOT = pathlib.Path(__file__).resolve().parents[2]
MOST_BYTES = 262_144  # of the annotation in which `kubectl apply` keeps what was applied

SMALL = {"apiVersion": "millstream.dev/v1alpha1", "kind": "StreamProcessor", "metadata": {"name": "small", "namespace": "shape"},
         "spec": {"kafka": {"bootstrapServers": "kafka:9092"}, "inputs": [{"topic": "orders"}], "replicas": 2}}


def processor(name, **spec):
    return {**SMALL, "metadata": {"name": name, "namespace": "shape"}, "spec": {**SMALL["spec"], **spec}}


@pytest.fixture(scope="module")
def shape(cluster):
    cluster.namespace("shape")
    return cluster.admin


def release(text):
    return tuple(map(int, text.split(".")))


# ---------------------------------------------------------------- what it is made of


@pytest.mark.parametrize("section", ["resource", "version", "schema", "validation", "formats", "variables", "functions", "operators"])
def test_everything_used_is_in_the_table_of_releases(section):
    table, used = crd.load(crd.RELEASES), crd.used(crd.load())[section]
    assert used - set(table[section]) == set(), f"find out in which release each came, and add it to {crd.RELEASES}"
    assert set(table[section]) - used == set(), "nothing uses these any more: take them out of the table"
    newer = {word: since for word, since in table[section].items() if release(since) > release(table["oldest"])}
    assert newer == {}, f"the oldest supported release, {table['oldest']}, does not know them"


def test_a_function_of_a_later_release_is_noticed():
    changed = crd.load()
    schema = changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["x-kubernetes-validations"].append({"rule": "isIP(self.metadata.name) ? true : self.spec.x.trim() % 2 == 0", "messageExpression": "'no'"})
    schema["properties"]["spec"]["x-kubernetes-list-type"] = "set"
    table, used = crd.load(crd.RELEASES), crd.used(changed)
    assert used["functions"] - set(table["functions"]) == {"isIP", "trim"}
    assert used["operators"] - set(table["operators"]) == {"%"}
    assert used["validation"] - set(table["validation"]) == {"messageExpression"}


def test_it_is_small_enough_for_kubectl_apply(shape):
    stored = shape.get("CustomResourceDefinition", None, "streamprocessors.millstream.dev")
    del stored["metadata"]["managedFields"], stored["status"]
    assert len(json.dumps(stored)) < MOST_BYTES
    assert crd.CRD.stat().st_size < MOST_BYTES


def test_the_server_finds_nothing_to_object_to(shape):
    stored = shape.get("CustomResourceDefinition", None, "streamprocessors.millstream.dev")
    conditions = {each["type"]: each for each in stored["status"]["conditions"]}
    assert conditions["NamesAccepted"]["status"] == "True" and conditions["Established"]["status"] == "True"
    assert "NonStructuralSchema" not in conditions, conditions
    assert stored["status"]["storedVersions"] == ["v1alpha1"]


def test_client_side_apply_and_explain_work(cluster):
    """Nobody is told to, but people do."""
    cluster.kubectl("apply", "--dry-run=server", "-f", crd.CRD)
    assert "exactly-once" in cluster.kubectl("explain", "streamprocessor").lower()
    assert "it only grows" in cluster.kubectl("explain", "sp.spec.storage.size")


# ---------------------------------------------------------------- what people see


def test_columns(cluster, shape):
    shape.create(processor("columns"))
    assert cluster.kubectl("get", "sp", "-n", "shape", "columns", "-o", "wide").splitlines()[0].split() == [
        "NAME", "READY", "REASON", "REPLICAS", "TASKS", "LAG", "AGE", "GROUP", "GUARANTEE", "MESSAGE"]
    at = "2026-01-01T00:00:00Z"
    shape.merge("StreamProcessor", "shape", "columns", {"status": {
        "observedGeneration": 1, "replicas": 2, "readyReplicas": 1, "selector": "a=b", "group": "shape.columns", "guarantee": "ExactlyOnce",
        "tasks": {"total": 4, "running": 3, "restoring": 1, "standby": 0, "stopped": 0}, "lag": {"records": 1234, "seconds": 5},
        "conditions": [{"type": "Ready", "status": "False", "reason": "Restoring", "message": "1 of 4 tasks restores", "lastTransitionTime": at, "observedGeneration": 1}]}},
        subresource="status")
    line = cluster.kubectl("get", "sp", "-n", "shape", "columns", "-o", "wide", "--no-headers")
    name, ready, reason, replicas, tasks, lag, _, group, guarantee, *message = line.split()
    assert (name, ready, reason, replicas, tasks, lag, group, guarantee) == ("columns", "False", "Restoring", "2", "3", "1234", "shape.columns", "ExactlyOnce")
    assert " ".join(message) == "1 of 4 tasks restores"
    assert "columns" in cluster.kubectl("get", "millstream", "-n", "shape")  # the category


def test_status_and_specification_are_apart(shape):
    created = shape.create({**processor("apart"), "status": {"replicas": 7}})
    assert "status" not in created
    shape.merge("StreamProcessor", "shape", "apart", {"spec": {"replicas": 9}, "status": {"replicas": 1}}, subresource="status")
    now = shape.get("StreamProcessor", "shape", "apart")
    assert (now["spec"]["replicas"], now["status"]["replicas"], now["metadata"]["generation"]) == (2, 1, 1)


def test_scale(cluster, shape):
    shape.create(processor("scaled"))
    cluster.kubectl("scale", "sp/scaled", "-n", "shape", "--replicas=5")
    shape.merge("StreamProcessor", "shape", "scaled", {"status": {"replicas": 4, "selector": "app.kubernetes.io/instance=scaled"}}, subresource="status")
    scale = shape.get("StreamProcessor", "shape", "scaled", "scale")
    assert (scale["spec"]["replicas"], scale["status"]["replicas"], scale["status"]["selector"]) == (5, 4, "app.kubernetes.io/instance=scaled")
    refused = cluster.run("kubectl", "scale", "sp/scaled", "-n", "shape", "--replicas=-1", check=False)
    assert refused.returncode != 0


# ---------------------------------------------------------------- what may change


SIZES = {"size": "10Gi", "storageClassName": "fast"}
TRANSITIONS = {  # name -> (before, after, what the server answers; None: it is allowed)
    "group-changed": ({"group": "a"}, {"group": "b"}, "group is immutable"),
    "group-added": ({}, {"group": "b"}, "group is immutable"),
    "group-removed": ({"group": "a"}, {"group": None}, "group is immutable"),
    "group-kept": ({"group": "a"}, {"group": "a", "replicas": 4}, None),
    "size-grows": ({"storage": SIZES}, {"storage": {**SIZES, "size": "10241Mi"}}, None),
    "size-same-in-other-words": ({"storage": SIZES}, {"storage": {**SIZES, "size": "10240Mi"}}, None),
    "size-shrinks": ({"storage": SIZES}, {"storage": {**SIZES, "size": "10239Mi"}}, "size only grows"),
    "class-changed": ({"storage": SIZES}, {"storage": {**SIZES, "storageClassName": "slow"}}, "storageClassName is immutable"),
    "class-removed": ({"storage": SIZES}, {"storage": {**SIZES, "storageClassName": None}}, "storageClassName is immutable"),
    "class-added": ({"storage": {"size": "10Gi"}}, {"storage": SIZES}, "storageClassName is immutable"),
    "volume-to-memory-and-back": ({"storage": SIZES}, {"storage": None}, None),
    "memory-to-volume": ({}, {"storage": SIZES}, None),
    "inputs-changed": ({}, {"inputs": [{"topic": "other"}]}, None),
}


@pytest.mark.parametrize("name", TRANSITIONS)
def test_changes(name, shape):
    before, after, message = TRANSITIONS[name]
    shape.create(processor(name, **before))
    if message is None:
        shape.merge("StreamProcessor", "shape", name, {"spec": after})
        return
    with pytest.raises(ApiError, match=message) as refused:
        shape.merge("StreamProcessor", "shape", name, {"spec": after})
    assert refused.value.status == 422


def test_every_rule_over_time_has_a_case():
    """A rule with oldSelf is judged by no program of ours: here is where it is tested."""
    schema = crd.load()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    messages = {rule["message"] for _, node in crd.nodes(schema) for rule in node.get("x-kubernetes-validations", []) if "oldSelf" in rule["rule"]}
    tested = {message for *_, message in TRANSITIONS.values() if message}
    assert len(messages) == 3
    assert all(any(message.startswith(each) for each in tested) for message in messages), messages


# ---------------------------------------------------------------- what we show


def samples():
    """(where, text) of every processor in the examples, the SDKs and the pages of the documentation."""
    found = []
    for path in sorted([*ROOT.glob("examples/**/*.yaml"), *ROOT.glob("sdk/**/*.yaml")]):
        text = path.read_text(encoding="utf-8")
        if "kind: StreamProcessor" in text and "node_modules" not in path.parts:
            found.append((str(path.relative_to(ROOT)), text))
    pages = [*ROOT.glob("docs/**/*.md"), *ROOT.glob("*.md"), *ROOT.glob("examples/**/*.md"), *ROOT.glob("sdk/*/*.md")]
    for page in sorted(pages):
        found += [(f"{page.relative_to(ROOT)}:{line}", text) for line, text in manifests.blocks(page) if "kind: StreamProcessor" in text]
    return found


@pytest.mark.parametrize(("where", "text"), samples(), ids=[where for where, _ in samples()])
def test_what_we_show_is_accepted(where, text, shape):
    for thing in manifests.processors(text):
        namespace = thing["metadata"].setdefault("namespace", "shape")
        if not shape.get("Namespace", None, namespace):
            shape.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        shape.create(thing, dryRun="All", fieldValidation="Strict")


def test_there_is_something_to_show():
    assert len(samples()) >= 20
