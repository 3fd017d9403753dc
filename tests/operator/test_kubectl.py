"""kubectl millstream as the real kubectl runs it, by a person who has the chart's role beside `view` and no other right.

The API server passes nothing on to pods of this node, because their addresses are loopback ones: what sidecars answer is tested with
tests/integration/kubectl_test.py.
"""

import json
import os
import re
import subprocess
import tarfile

import pytest
from rig import BUILD, processor

ROLES = ("view", "millstream-operator-kubectl")


class Person:
    def __init__(self, world, space, roles):
        self.world, self.space = world, space
        world.admin.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "person", "namespace": space}})
        for role in roles:
            world.cluster.kubectl("create", "rolebinding", f"person-{role}", f"--clusterrole={role}", f"--serviceaccount={space}:person", "-n", space)
        self.kubeconfig = world.cluster.account_kubeconfig(space, "person")

    def __call__(self, *arguments, code=0):
        """What it printed; on standard error, if it is to end with another code than 0."""
        environment = {**os.environ, **self.world.cluster.environment(), "KUBECONFIG": str(self.kubeconfig)}
        environment["PATH"] = f"{BUILD / 'bin'}:{environment['PATH']}"
        done = subprocess.run([str(self.world.cluster.bin / "kubectl"), "millstream", *map(str, arguments)], capture_output=True, text=True, check=False,
                              env=environment, timeout=300)
        assert done.returncode == code, (arguments, done)
        return done.stderr if code else done.stdout


@pytest.fixture
def person(world, space):
    return Person(world, space, ROLES)


def test_it_says_what_is_there(world, space, person):
    assert person("status") == f"no StreamProcessors in namespace {space}\n"
    world.admin.create(processor(space, "totals", replicas=2))
    world.wait_ready(space, "totals")
    [line] = person("status").splitlines()[1:]
    assert line.split()[:5] == ["totals", "True", "Processing", "2/2", "4/4"]
    told = json.loads(person("status", "totals", "-o", "json"))
    assert [pod["name"] for pod in told["pods"]] == ["totals-0", "totals-1"]
    assert all("sidecar" in pod or pod["error"] for pod in told["pods"])
    assert "no StreamProcessor other" in person("status", "other", code=1)
    assert "list" in person("status", "-A", code=1)  # their right ends with the namespace


def test_pause_resume_restart_reach_the_pods(world, space, person):
    world.admin.create(processor(space, "told"))
    world.wait_ready(space, "told")
    person("pause", "told")
    world.wait_reason(space, "told", "Paused")
    person("resume", "told")
    world.wait_ready(space, "told")
    before = world.pods(space, "told")["told-0"]["metadata"]["uid"]
    person("restart", "told")
    world.wait(lambda: world.pods(space, "told").get("told-0", {}).get("metadata", {}).get("uid", before) != before, "another pod")
    world.wait_ready(space, "told")


def test_a_job_is_made_with_the_persons_rights(world, space, person):
    """As the server takes it. What its pod prints stays unknown, as this node keeps no logs: the Job stays, for whoever has to look, and goes by itself."""
    world.admin.create(processor(space, "totals", replicas=0))
    world.wait(lambda: ("StatefulSet", "totals") in world.children(space, "totals"), "the StatefulSet")
    assert "read the log of container" in person("reset", "totals", "--to", "start", "--execute", code=1)
    [job] = world.admin.list("Job", space, labelSelector="app.kubernetes.io/component=tool")
    assert job["spec"]["template"]["spec"]["containers"][0]["command"][:5] == ["millstream", "reset", "--to", "start", "--execute"]
    assert job["metadata"]["ownerReferences"][0]["name"] == "totals"
    assert job["spec"]["ttlSecondsAfterFinished"] > 0


def test_report_names_what_may_not_be_read(world, space, person, tmp_path):
    world.admin.create(processor(space, "totals"))
    world.wait_ready(space, "totals")
    person("report", "totals", "--file", tmp_path / "r.tar")
    with tarfile.open(tmp_path / "r.tar") as tar:
        names = {member.name.split("/", 1)[1] for member in tar}
    assert {"about.txt", "processor.json", "statefulset.json", "jobs.json", "events.json", "volume-claims.json", "pods/totals-0/pod.json"} <= names


def test_without_rights_it_says_which_one(world, space):
    world.admin.create(processor(space, "totals"))
    stranger = Person(world, space, ())
    for command in (("status",), ("pause", "totals"), ("reset", "totals", "--to", "start"), ("report", "totals", "--file", "/dev/null/r.tar")):
        said = stranger(*command, code=1)
        assert re.search(r'cannot (get|list|patch) resource "streamprocessors"', said), said
