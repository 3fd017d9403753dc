"""What people change on a processor that runs, by the real operator: replicas, program, volumes, pause; and what others change on its children."""

import json
import time

import pytest
from rig import Watcher, processor

ORDERS = "millstream.dev/orders"
QUIET = 8.0  # seconds without a change after which a processor counts as steady


def change(world, space, name, **spec):
    world.admin.merge("StreamProcessor", space, name, {"spec": spec})


def uids(world, space, name):
    return {pod: each["metadata"]["uid"] for pod, each in world.pods(space, name).items()}


def version(thing):
    """Versions of all objects come from one counter."""
    return int(thing["metadata"]["resourceVersion"])


def container(number):
    return {"image": "test/worker:1", "env": [{"name": "VERSION", "value": number}]}


@pytest.fixture
def running(world, space):
    """A processor with two pods."""
    world.admin.create(processor(space, "p", replicas=2, container=container("1")))
    world.wait_ready(space, "p")
    return "p"


# ---------------------------------------------------------------- scale


def test_scale_out_and_in_restarts_nobody_and_drains_first(world, space, running):
    before = uids(world, space, running)
    world.cluster.kubectl("scale", "sp", running, "-n", space, "--replicas=4")
    world.wait(lambda: len(uids(world, space, running)) == 4, "four pods")
    world.wait_ready(space, running)
    pods, sets = Watcher(world, "Pod", space), Watcher(world, "StatefulSet", space)
    world.cluster.kubectl("scale", "sp", running, "-n", space, "--replicas=2")
    world.wait(lambda: len(uids(world, space, running)) == 2, "two pods")
    world.wait_ready(space, running)
    assert uids(world, space, running) == before
    assert world.processor(space, running)["status"]["replicas"] == 2
    # The pods that go were told to drain before the StatefulSet was made smaller.
    world.wait(lambda: any(thing["spec"]["replicas"] == 2 for _, thing in sets.seen), "the watch of StatefulSets")
    smaller = min(version(thing) for _, thing in sets.seen if thing["spec"]["replicas"] == 2)
    for name in ("p-2", "p-3"):
        told = [version(thing) for _, thing in pods.seen if thing["metadata"]["name"] == name
                and json.loads(thing["metadata"]["annotations"].get(ORDERS, "{}")).get("drain")]
        assert told and min(told) < smaller, f"{name} was not drained first"


def test_scale_in_waits_for_the_drain_and_can_be_cancelled(world, space, running):
    world.cluster.kubectl("scale", "sp", running, "-n", space, "--replicas=3")
    world.wait(lambda: len(uids(world, space, running)) == 3, "three pods")
    world.wait_ready(space, running)
    before = uids(world, space, running)
    world.pretence.reports[f"{space}/{running}"] = {"drain": "Draining"}  # it takes its time
    world.cluster.kubectl("scale", "sp", running, "-n", space, "--replicas=2")

    def drains():
        return json.loads(world.pods(space, running)["p-2"]["metadata"]["annotations"].get(ORDERS, "{}")).get("drain", False)

    world.wait(drains, "the order to drain")
    assert world.admin.get("StatefulSet", space, running)["spec"]["replicas"] == 3
    world.cluster.kubectl("scale", "sp", running, "-n", space, "--replicas=3")
    world.wait(lambda: not drains(), "the order to be taken back")
    del world.pretence.reports[f"{space}/{running}"]
    world.wait_ready(space, running)
    assert uids(world, space, running) == before


def test_to_zero_and_back(world, space, running):
    world.cluster.kubectl("scale", "sp", running, "-n", space, "--replicas=0")
    world.wait(lambda: not world.pods(space, running), "no pods")
    world.wait_reason(space, running, "ScaledToZero")
    world.cluster.kubectl("scale", "sp", running, "-n", space, "--replicas=1")
    world.wait_ready(space, running)


def test_an_autoscaler_owns_replicas(world, space, running):
    """A HorizontalPodAutoscaler finds the scale subresource; whoever applies the manifest without replicas does not take them back."""
    without = processor(space, running, container=container("1"))
    world.admin.apply(without, manager="gitops", force=True)
    world.admin.create({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "h", "namespace": space}, "spec": {
        "scaleTargetRef": {"apiVersion": "millstream.dev/v1alpha1", "kind": "StreamProcessor", "name": running}, "minReplicas": 3, "maxReplicas": 5,
        "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}]}})
    world.wait(lambda: len(uids(world, space, running)) == 3, "the autoscaler to ask for its minimum")
    world.wait_ready(space, running)
    world.admin.apply(without, manager="gitops", force=True)
    world.wait_ready(space, running)
    assert world.processor(space, running)["spec"]["replicas"] == 3


# ---------------------------------------------------------------- roll


def test_another_program_rolls_one_pod_at_a_time(world, space, running):
    before = uids(world, space, running)
    pods = Watcher(world, "Pod", space)
    change(world, space, running, container=container("2"))
    world.wait(lambda: not set(before.values()) & set(uids(world, space, running).values()), "all pods to be new")
    world.wait_ready(space, running)
    for each in world.pods(space, running).values():
        assert {"name": "VERSION", "value": "2"} in each["spec"]["containers"][0]["env"]
    # Of two pods one was ready at every moment.
    ready = dict.fromkeys(before.values(), True)
    for event, thing in list(pods.seen):
        if thing["spec"].get("restartPolicy") != "Never":
            conditions = {each["type"]: each["status"] for each in thing.get("status", {}).get("conditions", [])}
            ready[thing["metadata"]["uid"]] = event != "DELETED" and conditions.get("Ready") == "True"
            assert sum(ready.values()) >= 1


def test_restart_and_paused_reconciliation_by_annotation(world, space, running):
    before = uids(world, space, running)
    world.admin.merge("StreamProcessor", space, running, {"metadata": {"annotations": {"millstream.dev/pause-reconciliation": "true"}}})
    change(world, space, running, replicas=3)
    world.admin.merge("StreamProcessor", space, running, {"metadata": {"annotations": {"millstream.dev/restartedAt": "now"}}})
    world.admin.create(processor(space, "witness"))  # the operator has work meanwhile, and does it
    world.wait_ready(space, "witness")
    assert uids(world, space, running) == before
    world.admin.merge("StreamProcessor", space, running, {"metadata": {"annotations": {"millstream.dev/pause-reconciliation": None}}})
    world.wait(lambda: len(uids(world, space, running)) == 3 and not set(before.values()) & set(uids(world, space, running).values()), "three new pods")
    world.wait_ready(space, running)


def test_a_broken_image_stops_the_roll_and_is_taken_back(world, space, running):
    before = uids(world, space, running)
    change(world, space, running, container={"image": "nowhere/worker:1"})
    world.wait(lambda: "nowhere/worker:1" in json.dumps(world.processor(space, running).get("status", {})), "the status to name the image")
    kept = set(before.values()) & set(uids(world, space, running).values())
    assert len(kept) == 1, "one pod at a time: the other goes on with the old image"
    change(world, space, running, container=container("1"))
    world.wait_ready(space, running)
    assert kept < set(uids(world, space, running).values())


# ---------------------------------------------------------------- pause, volumes


def test_pause_and_resume_by_orders(world, space, running):
    before = uids(world, space, running)
    change(world, space, running, desiredState="Paused")
    world.wait_reason(space, running, "Paused")
    assert all(json.loads(pod["metadata"]["annotations"][ORDERS])["state"] == "Paused" for pod in world.pods(space, running).values())
    change(world, space, running, desiredState="Running")
    world.wait_ready(space, running)
    assert uids(world, space, running) == before


def test_volumes_grow_under_running_pods(world, space):
    if world.admin.get("StorageClass", None, "grows") is None:
        world.admin.create({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "grows"}, "provisioner": "test/none", "allowVolumeExpansion": True})
    storage = {"size": "1Gi", "storageClassName": "grows"}
    world.admin.create(processor(space, "v", replicas=2, storage=storage))
    world.wait_ready(space, "v")
    before, old_set = uids(world, space, "v"), world.admin.get("StatefulSet", space, "v")["metadata"]["uid"]
    change(world, space, "v", storage={**storage, "size": "2Gi"})
    world.wait(lambda: all(each["status"].get("capacity", {}).get("storage") == "2Gi" for each in world.admin.list("PersistentVolumeClaim", space)), "the claims to grow")
    world.wait(lambda: (world.admin.get("StatefulSet", space, "v") or {"metadata": {"uid": old_set}})["metadata"]["uid"] != old_set, "a StatefulSet of the new size")
    world.wait_ready(space, "v")
    assert uids(world, space, "v") == before
    template = world.admin.get("StatefulSet", space, "v")["spec"]["volumeClaimTemplates"][0]
    assert template["spec"]["resources"]["requests"]["storage"] == "2Gi"


# ---------------------------------------------------------------- what others change


def test_manual_edits_of_children_are_put_back(world, space, running):
    admin = world.admin
    manifest = admin.get("ConfigMap", space, running)["data"]["processor.yaml"]
    admin.merge("ConfigMap", space, running, {"data": {"processor.yaml": "{}"}})
    world.wait(lambda: admin.get("ConfigMap", space, running)["data"]["processor.yaml"] == manifest, "the manifest to be put back")
    admin.merge("PodDisruptionBudget", space, running, {"spec": {"maxUnavailable": 2}})
    world.wait(lambda: admin.get("PodDisruptionBudget", space, running)["spec"]["maxUnavailable"] == 1, "the budget to be put back")
    admin.merge("StatefulSet", space, running, {"spec": {"replicas": 5}})
    world.wait(lambda: admin.get("StatefulSet", space, running)["spec"]["replicas"] == 2, "the replicas to be put back")
    admin.merge("Service", space, running, {"metadata": {"labels": {"app.kubernetes.io/instance": None}}})
    world.wait(lambda: (admin.get("Service", space, running) or {"metadata": {}})["metadata"].get("labels", {}).get("app.kubernetes.io/instance") == running, "the label to be put back")
    gone = admin.get("Service", space, running)["metadata"]["uid"]
    admin.delete("Service", space, running)
    world.wait(lambda: (admin.get("Service", space, running) or {"metadata": {"uid": gone}})["metadata"]["uid"] != gone, "the service to be made anew")
    world.wait_ready(space, running)


def test_what_others_add_to_children_stays(world, space, running):
    admin = world.admin
    for kind in ("StatefulSet", "Service", "ConfigMap", "ServiceAccount"):
        admin.merge(kind, space, running, {"metadata": {"annotations": {"backup.example/keep": "yes"}, "labels": {"team": "blue"}}})
    change(world, space, running, replicas=3)
    world.wait(lambda: len(uids(world, space, running)) == 3, "three pods")
    world.wait_ready(space, running)
    for kind in ("StatefulSet", "Service", "ConfigMap", "ServiceAccount"):
        metadata = admin.get(kind, space, running)["metadata"]
        assert (metadata["annotations"]["backup.example/keep"], metadata["labels"]["team"]) == ("yes", "blue"), kind


def test_a_steady_processor_costs_no_writes(world, space, running):
    """Nor does a restart of the operator: what is there is what it wants."""
    def versions():
        things = {**world.children(space, running), **{("Pod", name): pod for name, pod in world.pods(space, running).items()},
                  ("StreamProcessor", running): world.processor(space, running)}
        return {key: thing["metadata"]["resourceVersion"] for key, thing in things.items()}

    def writes():
        return [call for call in world.calls() if call["namespace"] == space and call["verb"] not in ("get", "list", "watch")]

    before, since = versions(), time.monotonic()
    while time.monotonic() < since + QUIET:  # the last events and numbers of its beginning
        if versions() != before:
            before, since = versions(), time.monotonic()
        time.sleep(0.5)
    calls = len(writes())
    world.restart_operator()
    # It has looked at this one again once it has made another one ready.
    world.admin.create(processor(space, "witness"))
    world.wait_ready(space, "witness")
    time.sleep(3)  # more can only happen the longer one looks
    assert versions() == before
    assert [call for call in writes()[calls:] if "witness" not in json.dumps(call)] == []
