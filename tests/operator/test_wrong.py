"""What goes wrong: every condition says the thing, the place and the way out, clears by itself when the cause is gone, and stops nobody else."""

import json
import time

import pytest
from api import ApiError
from rig import processor


@pytest.fixture
def healthy(world, space):
    """Another processor in the same namespace, which must not notice."""
    world.admin.create(processor(space, "healthy"))
    world.wait_ready(space, "healthy")
    uids = {name: pod["metadata"]["uid"] for name, pod in world.pods(space, "healthy").items()}
    yield
    world.wait_ready(space, "healthy")
    assert {name: pod["metadata"]["uid"] for name, pod in world.pods(space, "healthy").items()} == uids


def test_an_invalid_specification(world, space, healthy):
    """One that only the programs can judge: the API server took it."""
    world.admin.create(processor(space, "wrong", outputs=[{"topic": "out", "create": {"partitions": 4, "replicationFactor": 1, "config": {"min.insync.replicas": "2"}}}]))
    message = world.wait_reason(space, "wrong", "InvalidSpec")
    assert "spec.outputs[0].create" in message
    assert world.condition(space, "wrong", "Stalled")[0] == "True"
    assert not world.children(space, "wrong")
    world.admin.merge("StreamProcessor", space, "wrong", {"spec": {"outputs": [{"topic": "out"}]}})
    world.wait_ready(space, "wrong")
    assert world.condition(space, "wrong", "Stalled")[0] is None


def test_a_secret_that_appears_later(world, space, healthy):
    world.admin.create(processor(space, "p", kafka={"bootstrapServers": "kafka:9092", "sasl": {
        "mechanism": "SCRAM-SHA-512", "username": "u", "passwordSecretRef": {"name": "kafka-user", "key": "password"}}}))
    message = world.wait_reason(space, "p", "SecretNotFound")
    assert "kafka-user" in message
    world.admin.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "kafka-user", "namespace": space}, "stringData": {"other": "x"}})
    world.wait(lambda: "password" in world.condition(space, "p")[2], "the missing key to be named")
    world.admin.merge("Secret", space, "kafka-user", {"stringData": {"password": "secret"}})
    world.wait_ready(space, "p")


def test_a_certificate_in_a_config_map_that_appears_later(world, space, healthy):
    world.admin.create(processor(space, "p", kafka={"bootstrapServers": "kafka:9093", "tls": {"caConfigMapRef": {"name": "company-ca", "key": "ca.crt"}}}))
    assert "company-ca" in world.wait_reason(space, "p", "ConfigMapNotFound")
    world.admin.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "company-ca", "namespace": space}, "data": {"ca.crt": "c"}})
    world.wait_ready(space, "p")


def test_secrets_of_strimzi_as_they_are(world, space):
    """A KafkaUser's secret and the cluster's CA certificate, with the keys that Strimzi gives them."""
    for name, data in {"my-user": {"ca.crt": "c", "user.crt": "u", "user.key": "k", "user.p12": "p", "user.password": "w"}, "my-cluster-cluster-ca-cert": {"ca.crt": "c", "ca.p12": "p", "ca.password": "w"}}.items():
        world.admin.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": space}, "stringData": data})
    world.admin.create(processor(space, "p", kafka={"bootstrapServers": "my-cluster-kafka-bootstrap:9093", "tls": {
        "caSecretRef": {"name": "my-cluster-cluster-ca-cert", "key": "ca.crt"}, "certSecretRef": {"name": "my-user", "key": "user.crt"},
        "keySecretRef": {"name": "my-user", "key": "user.key"}}}))
    world.wait_ready(space, "p")


def test_a_name_that_is_taken(world, space, healthy):
    """What is not the processor's own is never touched."""
    taken = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "p", "namespace": space}, "spec": {"selector": {"app": "other"}, "ports": [{"port": 80}]}}
    before = world.admin.create(taken)
    world.admin.create(processor(space, "p"))
    message = world.wait_reason(space, "p", "NameTaken")
    assert "Service" in message and "p" in message
    now = world.admin.get("Service", space, "p")
    assert now["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    world.admin.delete("Service", space, "p")
    world.wait_ready(space, "p")


def test_the_same_group_twice(world, space, healthy):
    world.admin.create(processor(space, "first", group="shared"))
    world.wait_ready(space, "first")
    world.admin.create(processor(space, "second", group="shared"))
    message = world.wait_reason(space, "second", "GroupOwnedByAnother")
    assert "shared" in message and f"{space}/first" in message
    assert world.is_ready(space, "first") and not world.children(space, "second")
    world.admin.delete("StreamProcessor", space, "first")
    world.wait_ready(space, "second")


def test_an_internal_topic_that_is_anothers(world, space, healthy):
    changelog = f"{space}.second-totals-changelog"
    world.admin.create(processor(space, "first", outputs=[{"topic": changelog}]))
    world.wait_ready(space, "first")
    world.admin.create(processor(space, "second"))
    message = world.wait_reason(space, "second", "TopicsOverlap")
    assert changelog in message and f"{space}/first" in message
    assert world.is_ready(space, "first") and not world.children(space, "second")
    world.admin.merge("StreamProcessor", space, "first", {"spec": {"outputs": [{"topic": "elsewhere"}]}})
    world.wait_ready(space, "second")


def test_what_the_topics_job_says(world, space, healthy):
    key = f"{space}/p"
    world.pretence.verdicts[key] = {"ok": False, "reason": "TopicMissing", "message": "topic p-in does not exist: create it, or ask for it with spec.outputs[].create", "retry": True}
    world.admin.create(processor(space, "p"))
    assert "p-in does not exist" in world.wait_reason(space, "p", "TopicMissing")
    assert world.condition(space, "p", "TopicsReady")[:2] == ("False", "TopicMissing")
    assert world.admin.get("StatefulSet", space, "p") is None, "no pods before the topics"
    del world.pretence.verdicts[key]
    world.wait_ready(space, "p")


def test_a_pod_template_that_the_server_refuses(world, space, healthy):
    world.admin.create(processor(space, "p", podTemplate={"spec": {"terminationGracePeriodSecondz": 5}}))
    message = world.wait_reason(space, "p", "InvalidPodTemplate")
    assert "terminationGracePeriodSecondz" in message
    assert world.condition(space, "p", "Stalled")[0] == "True"
    world.admin.merge("StreamProcessor", space, "p", {"spec": {"podTemplate": None}})
    world.wait_ready(space, "p")


def test_a_quota_that_is_full(world, space, healthy):
    world.admin.create({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": space}, "spec": {"hard": {"count/statefulsets.apps": "1"}}})
    world.wait(lambda: "used" in world.admin.get("ResourceQuota", space, "q").get("status", {}), "the quota to be in force")
    world.admin.create(processor(space, "p"))
    assert "quota" in world.wait_reason(space, "p", "Forbidden")
    world.admin.delete("ResourceQuota", space, "q")
    world.wait_ready(space, "p")


def test_a_task_that_stopped(world, space, healthy):
    world.admin.create(processor(space, "p"))
    world.wait_ready(space, "p")
    error = {"task": 1, "input": "p-in", "topic": "p-in", "partition": 1, "offset": 17, "message": "division by zero"}
    world.pretence.reports[f"{space}/p"] = {
        "tasks": [{"task": number, "state": "stopped" if number == 1 else "active", "error": "division by zero" if number == 1 else ""} for number in range(4)],
        "summary": {"total": 4, "active": 3, "restoring": 0, "standby": 0, "stopped": 1}, "firstError": error}
    world.wait_reason(space, "p", "TaskStopped")
    status = world.processor(space, "p")["status"]
    assert (status["firstError"]["task"], status["firstError"]["offset"], status["firstError"]["message"]) == (1, 17, "division by zero")
    assert status["tasks"]["stopped"] == 1
    del world.pretence.reports[f"{space}/p"]
    world.wait_ready(space, "p")


# ---------------------------------------------------------------- limits


def test_names_at_the_limit(world, space):
    long_space = world.cluster.namespace("n" * 63)
    try:
        name = "p" * 52
        world.admin.create(processor(long_space, name, replicas=2, stores=[{"name": "s" * 63}]))
        world.wait_ready(long_space, name)
        assert sorted(world.pods(long_space, name)) == [f"{name}-0", f"{name}-1"]
        with pytest.raises(ApiError, match="at most 52"):
            world.admin.create(processor(long_space, name + "p"))
    finally:
        world.admin.delete("Namespace", None, long_space)


def test_illegal_topic_names_are_refused_at_once(world, space):
    for topic in ("with space", "a/b", "..", "t" * 250, ""):
        with pytest.raises(ApiError) as refused:
            world.admin.create(processor(space, "p", inputs=[{"topic": topic}]))
        assert refused.value.status == 422 and "topic" in str(refused.value)


def test_a_manifest_of_a_megabyte(world, space, healthy):
    """It fits into the API server and not into the ConfigMap of the sidecars: that is said, and harms nobody."""
    values = [{"name": f"V{number}", "value": "x" * 32_000} for number in range(33)]
    try:
        world.admin.create(processor(space, "big", container={"image": "test/worker:1", "env": values}))
    except ApiError as error:
        assert error.status in (413, 422), error
        return
    world.wait(lambda: world.condition(space, "big")[0] == "False" and world.condition(space, "big")[1] not in ("TopicsPending",), "a word about it")
    _, reason, message = world.condition(space, "big")
    assert reason == "InvalidSpec" and ("large" in message or "bytes" in message or "Too long" in message), (reason, message)


# ---------------------------------------------------------------- fast lives


def test_created_edited_deleted_within_a_second(world, space, healthy):
    for number in range(5):
        world.admin.create(processor(space, "brief"))
        world.admin.merge("StreamProcessor", space, "brief", {"spec": {"replicas": 3 + number}})
        world.admin.delete("StreamProcessor", space, "brief")
    world.wait(lambda: not world.children(space, "brief") and not world.pods(space, "brief"), "nothing to be left")
    world.admin.create(processor(space, "brief"))
    world.wait_ready(space, "brief")


def test_the_same_name_with_another_uid(world, space):
    first = world.admin.create(processor(space, "p"))
    world.wait_ready(space, "p")
    world.admin.delete("StreamProcessor", space, "p", propagation="Background")
    second = world.admin.create(processor(space, "p"))
    assert second["metadata"]["uid"] != first["metadata"]["uid"]
    world.wait_ready(space, "p")
    owners = {owner["uid"] for child in world.children(space, "p").values() for owner in child["metadata"]["ownerReferences"]}
    assert owners == {second["metadata"]["uid"]}


def test_deleted_with_its_topics(world, space):
    world.admin.create(processor(space, "p", internalTopics={"whenDeleted": "Delete"}))
    world.wait_ready(space, "p")
    assert world.processor(space, "p")["metadata"]["finalizers"] == ["millstream.dev/topics"]
    world.pretence.verdicts[f"{space}/p"] = {"ok": False, "reason": "BrokersUnreachable", "message": "no broker answers", "retry": True}
    world.admin.delete("StreamProcessor", space, "p")
    world.wait(lambda: not world.pods(space, "p"), "the pods to end first")
    assert world.processor(space, "p") is not None
    world.pretence.verdicts[f"{space}/p"] = {"reason": "TopicsDeleted", "message": "3 topics deleted"}
    world.wait(lambda: world.processor(space, "p") is None, "it to be gone")


def test_a_namespace_is_deleted_while_kafka_is_down(world):
    space = world.cluster.namespace("kafka-is-down")
    world.admin.create(processor(space, "p", internalTopics={"whenDeleted": "Delete"}))
    world.admin.create(processor(space, "q"))
    world.wait_ready(space, "p")
    world.pretence.verdicts[f"{space}/p"] = {"ok": False, "reason": "BrokersUnreachable", "message": "no broker answers", "retry": True}
    world.admin.delete("Namespace", None, space)
    world.wait(lambda: world.admin.get("Namespace", None, space) is None, "the namespace to be gone")


# ---------------------------------------------------------------- the operator itself


def test_the_operator_dies_at_any_moment(world, space):
    for number in range(4):
        world.admin.create(processor(space, f"p{number}", replicas=1 + number % 2))
        time.sleep(0.3 * number)
        world.operator().mains[0].kill()
    world.wait(lambda: all(world.is_ready(space, f"p{number}") for number in range(4)), "all of them to be ready")


def test_the_api_server_is_away_for_a_while(world, space, healthy):
    container = world.operator().mains[0]
    restarts, pods = container.restarts, {name: pod["metadata"]["uid"] for name, pod in world.pods(space, "healthy").items()}
    world.cluster.stop_api()
    time.sleep(20)  # longer than a lease
    world.cluster.start_api()
    world.admin.create(processor(space, "after"))
    world.wait_ready(space, "after")
    assert container.restarts == restarts, "it waits, and does not crash"
    assert {name: pod["metadata"]["uid"] for name, pod in world.pods(space, "healthy").items()} == pods


def test_a_second_operator_takes_over(world, space):
    world.start_operator(replicas=2)
    world.admin.create(processor(space, "before"))
    world.wait_ready(space, "before")
    holder = world.admin.get("Lease", "millstream-system", "millstream-operator")["spec"]["holderIdentity"]
    leader = next(pod for pod in world.operators() if holder.startswith(pod.name))
    world.admin.delete("Pod", "millstream-system", leader.name)
    world.admin.create(processor(space, "behind"))
    world.wait_ready(space, "behind")
    assert world.admin.get("Lease", "millstream-system", "millstream-operator")["spec"]["holderIdentity"] != holder
    world.start_operator(replicas=1)


def test_rights_were_never_missing(world, space):
    """Last in its file: all tests so far ran with the rights of the chart, and the operator never asked for more."""
    asked = [((call["verb"], call["resource"], call["subresource"]), call["allowed"]) for call in world.calls()]
    # An API server that has just started does not know its own rules yet: what is allowed once is a right.
    assert {what for what, allowed in asked if not allowed} - {what for what, allowed in asked if allowed} == set()
