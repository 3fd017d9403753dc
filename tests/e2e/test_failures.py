"""One failure at a time under a steady load on one processor of two pods. After each the processor gets ready by itself, and everything is compared:
nothing lost, nothing doubled (load.py)."""

import json
import time

import clients
import load
import pytest
import rig

NAME = "ledger"


class Running:
    """The processor under load."""

    def __init__(self, world, namespace):
        self.world, self.namespace = world, namespace
        self.load = load.Load(world, namespace, NAME)

    def pod(self, number):
        return f"{NAME}-{number}"

    def restarts(self, number, container):
        return self.world.container(self.namespace, self.pod(number), container).get("restartCount", -1)

    def uid(self, number):
        return (self.world.pod(self.namespace, self.pod(number)) or {"metadata": {"uid": ""}})["metadata"]["uid"]

    def misbehave(self, number, what, times=1):
        self.world.inside(self.namespace, self.pod(number), "worker", "python3", "-c", f"open('/tmp/{what}', 'w').write('{times}')")

    def wait_new_pod(self, number, old):
        self.world.wait(lambda: self.uid(number) not in ("", old), f"a new {self.pod(number)}")

    def verdict(self):
        """After a failure."""
        self.world.wait_ready(self.namespace, NAME)
        self.load.wait_progress()
        problems = self.load.problems()
        assert not problems, "\n".join(problems)


@pytest.fixture(scope="module")
def running(world):
    space = world.cluster.namespace("failures", rig.RESTRICTED)
    clients.create_topic(world.kafka.client("INTERNAL"), f"{NAME}-in", 4)
    clients.create_topic(world.kafka.client("INTERNAL"), f"{NAME}-out", 4)
    world.admin.create(rig.processor(space, NAME, replicas=2, batch={"deadline": "10s"}))
    world.wait_ready(space, NAME)
    made = Running(world, space)
    made.load.start()
    try:
        made.load.wait_progress()
        yield made
    finally:
        made.load.close()
        world.admin.delete("Namespace", None, space)


def test_the_sidecar_is_killed(running):
    before = running.restarts(0, "millstream")
    running.world.kill(running.namespace, running.pod(0), "millstream")
    running.world.wait(lambda: running.restarts(0, "millstream") > before, "the sidecar to be started again")
    running.verdict()


def test_the_worker_is_out_of_memory(running):
    before = running.restarts(1, "worker")
    running.misbehave(1, "memory")
    running.world.wait(lambda: running.restarts(1, "worker") > before, "the worker to be started again")
    assert running.world.container(running.namespace, running.pod(1), "worker")["lastState"]["terminated"]["reason"] == "OOMKilled"
    running.verdict()


def test_the_worker_ends_at_its_start_again_and_again(running):
    before = running.restarts(0, "worker")
    running.misbehave(0, "exit", 2)
    running.world.kill(running.namespace, running.pod(0), "worker")
    running.world.wait(lambda: running.restarts(0, "worker") >= before + 3, "the worker to be started three times")
    running.verdict()


def test_the_worker_hangs(running):
    """The sidecar gives the batch up, and the pod is named; who ends the worker is a person, or a liveness probe of its own."""
    before = running.restarts(1, "worker")
    running.misbehave(1, "hang")
    said = lambda: running.world.condition(running.namespace, NAME, "WorkloadReady")[2]
    running.world.wait(lambda: running.pod(1) in said() and ("WorkerHangs" in said() or "WorkerNotConnected" in said()), "the pod to be named")
    running.world.kill(running.namespace, running.pod(1), "worker")
    running.world.wait(lambda: running.restarts(1, "worker") > before, "the worker to be started again")
    running.verdict()


def test_a_pod_is_deleted(running):
    before = running.uid(1)
    running.world.admin.delete("Pod", running.namespace, running.pod(1))
    running.wait_new_pod(1, before)
    running.verdict()


def evict(running, number):
    body = json.dumps({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": running.pod(number), "namespace": running.namespace}})
    return running.world.cluster.run("kubectl", "create", "--raw", f"/api/v1/namespaces/{running.namespace}/pods/{running.pod(number)}/eviction", "-f", "-", text=body, check=False)


def test_of_two_evictions_the_disruption_budget_lets_one(running):
    before = running.uid(0)
    assert evict(running, 0).returncode == 0
    refused = evict(running, 1)
    assert refused.returncode != 0 and "disruption budget" in refused.stderr, refused
    running.wait_new_pod(0, before)
    running.verdict()


def test_the_operator_is_killed_while_pods_are_replaced(running):
    world, before = running.world, [running.uid(0), running.uid(1)]
    world.cluster.kubectl("annotate", "sp", NAME, "-n", running.namespace, f"millstream.dev/restartedAt={time.time()}", "--overwrite")
    world.wait(lambda: [running.uid(0), running.uid(1)] != before, "the first pod to be replaced")
    (operator,) = [each["metadata"]["name"] for each in world.admin.list("Pod", rig.NAMESPACE)]
    world.kill(rig.NAMESPACE, operator, "operator")
    world.wait(lambda: running.uid(0) != before[0] and running.uid(1) != before[1], "both pods to be replaced")
    running.verdict()


def test_kafka_is_away_for_a_minute(running):
    broker = running.world.kafka.brokers[0]
    broker.pause()
    try:
        time.sleep(60)  # what is tested: that long
    finally:
        broker.resume()
    running.verdict()


def test_a_broken_image_is_rolled_out_and_taken_back(running):
    image = lambda name: running.world.patch(running.namespace, NAME, {"container": {"image": name}})
    other = running.uid(0)
    image("localhost/none:1")
    running.world.wait(lambda: "none:1" in running.world.condition(running.namespace, NAME, "WorkloadReady")[2], "the image to be named")
    running.load.wait_progress(0)
    assert running.uid(0) == other, "the roll stops at its first pod"
    image(rig.WORKER)
    running.verdict()
    assert running.uid(0) == other


def test_a_volume_is_lost(running):
    before = running.uid(0)
    running.world.admin.delete("PersistentVolumeClaim", running.namespace, f"state-{running.pod(0)}")
    running.world.admin.delete("Pod", running.namespace, running.pod(0))
    running.wait_new_pod(0, before)
    running.verdict()


def test_kubelet_is_restarted(running):
    running.world.cluster.node.restart("kubelet")
    running.verdict()


def test_a_worker_that_ignores_sigterm(running):
    container = {"env": [{"name": "MODE", "value": "ignore"}]}
    running.world.patch(running.namespace, NAME, {"container": container})
    running.world.wait(lambda: running.world.is_ready(running.namespace, NAME), "the stubborn workers to run")
    before = running.uid(1)
    running.world.admin.delete("Pod", running.namespace, running.pod(1))
    running.wait_new_pod(1, before)
    running.verdict()
    running.world.patch(running.namespace, NAME, {"container": {"env": None}})
    running.verdict()
