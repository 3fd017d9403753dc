"""From `kubectl apply` to Ready, by the real operator with the rights of its chart."""

import json

from rig import CHILDREN, NAME, NAMESPACE, processor


def test_apply_makes_topics_then_children_then_ready(world, space):
    world.admin.create(processor(space, "totals", replicas=2))
    world.wait_ready(space, "totals")
    thing, children = world.processor(space, "totals"), world.children(space, "totals")
    assert {kind for kind, _ in children} == {*CHILDREN, "Job"}
    for (kind, _), child in children.items():
        [owner] = child["metadata"]["ownerReferences"]
        assert (owner["uid"], owner["controller"]) == (thing["metadata"]["uid"], True), kind
        assert child["metadata"]["labels"]["app.kubernetes.io/instance"] == "totals"
    conditions = {each["type"]: each for each in thing["status"]["conditions"]}
    assert {kind: each["status"] for kind, each in conditions.items()} == {"Ready": "True", "TopicsReady": "True", "WorkloadReady": "True", "Restored": "True"}
    assert all(each["observedGeneration"] == 1 and each["reason"] and each["message"] for each in conditions.values())
    status = thing["status"]
    assert (status["replicas"], status["readyReplicas"], status["group"], status["guarantee"]) == (2, 2, f"{space}.totals", "ExactlyOnce")
    assert (status["tasks"]["total"], status["tasks"]["running"], status["lag"]["records"]) == (4, 4, 0)
    # The manifest that the sidecars read is the one that was applied.
    manifest = json.loads(children["ConfigMap", "totals"]["data"]["processor.yaml"])
    assert manifest["spec"]["inputs"][0]["topic"] == "totals-in"


def test_kubectl_tells_the_truth(world, space):
    world.admin.create(processor(space, "shown"))
    world.cluster.kubectl("wait", "sp/shown", "-n", space, "--for=condition=Ready", "--timeout=300s")
    line = world.cluster.kubectl("get", "sp", "shown", "-n", space, "--no-headers").split()
    assert line[:5] == ["shown", "True", "Processing", "1", "4"]
    events = [each["reason"] for each in world.admin.list("Event", space) if each["involvedObject"]["kind"] == "StreamProcessor"]
    assert events and len(events) == len(set(events)), events
    assert world.admin.get("Lease", NAMESPACE, NAME)["spec"]["holderIdentity"].startswith(NAME)
