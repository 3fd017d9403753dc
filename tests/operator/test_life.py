"""The whole on one machine: a real Kafka that wants passwords, the operator installed by its chart, real sidecars and workers as the pods of the fake
node. What `kubectl get sp` says is looked at in every moment of a processor's life, while events flow; in the end each was processed exactly once."""

import itertools
import json
import os
import re
import sys
import threading
import urllib.request

import pytest
import rig
from container import program
from rig import BUILD, ROOT, World

sys.path.insert(0, str(ROOT / "tests" / "testbed" / "kafka"))
import brokers  # noqa: E402
import clients  # noqa: E402
import proxy  # noqa: E402
import verifier  # noqa: E402

SIDECAR, WORKER = "life/sidecar:1", "life/worker:1"
PARTITIONS = 4
LOOKS = itertools.count(1)
BACKLOG = 500  # events that wait when the processor begins, and that pile up while it is paused


def sidecar_hook(container, argv):
    """Fixed places of the image: where a Job's verdict goes, where the hook of the end finds the sidecar."""
    if "topics" in argv:
        return [*argv, "--termination-log", str(container.termination)]
    if "drain" in argv:
        return [str(BUILD / "bin" / "millstream-sidecar"), *argv[1:], "--state", container.on_host("/var/lib/millstream")]
    return argv


@pytest.fixture(scope="module")
def kafka(tmp_path_factory):
    """One broker; its listener without passwords is behind a proxy."""
    made = brokers.Cluster(tmp_path_factory.mktemp("kafka") / "run", secure=True)
    made.proxy = proxy.Proxy(made)
    try:
        with made:
            yield made
    finally:
        made.proxy.close()


@pytest.fixture(scope="module")
def life(tmp_path_factory):
    images = {SIDECAR: program(str(BUILD / "bin" / "millstream-sidecar"), hook=sidecar_hook),
              WORKER: program(sys.executable, str(ROOT / "tests" / "faults" / "ledger_worker.py"))}
    with World(tmp_path_factory.mktemp("life") / "run", images=images) as world:
        world.node.environment["PYTHONPATH"] = os.environ.get("PYTHONPATH", str(ROOT / "sdk" / "python" / "src"))
        world.admin.create({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "disk"}, "provisioner": "test/none"})
        yield world


class Load:
    """Writes numbered events of 20 keys: at once with add(), or some 100 a second between begin() and end()."""

    def __init__(self, config, topic):
        self.config, self.topic, self.count = config, topic, 0
        self.ended, self.thread = threading.Event(), None

    def add(self, count):
        numbers = range(self.count, self.count + count)
        clients.write(self.config, self.topic, [(-1, f"k{number % 20}".encode(), json.dumps({"n": number}).encode()) for number in numbers],
                      partitioner="murmur2_random")
        self.count += count

    def begin(self):
        self.ended.clear()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        while not self.ended.wait(0.1):
            self.add(10)

    def end(self):
        self.ended.set()
        if self.thread:
            self.thread.join()


class Life:
    """One processor and what is asked of it."""

    def __init__(self, world, kafka, name):
        self.world, self.kafka, self.name = world, kafka, name
        self.space, self.group = world.cluster.namespace(name), f"{name}.{name}"
        self.inputs, self.outputs, self.changelog = f"{name}-events", f"{name}-seen", f"{self.group}-ledger-changelog"

    def manifest(self, **more):
        sasl = {"mechanism": "SCRAM-SHA-512", "username": "alice", "passwordSecretRef": {"name": "kafka-user", "key": "password"}}
        spec = {"kafka": {"bootstrapServers": self.kafka.bootstrap("SASL_PLAINTEXT"), "sasl": sasl}, "inputs": [{"name": "events", "topic": self.inputs}],
                "outputs": [{"name": "seen", "topic": self.outputs, "create": {"partitions": PARTITIONS, "config": {"retention.ms": "3600000"}}}],
                "stores": [{"name": "ledger"}], "sidecar": {"image": SIDECAR}, "container": {"image": WORKER}}
        return rig.processor(self.space, self.name, **{**spec, **more})

    def apply(self, **more):
        """As people do it; `more` fields of the specification."""
        self.world.cluster.kubectl("apply", "-f", "-", text=json.dumps(self.manifest(**more)))

    def change(self, **spec):
        self.world.admin.merge("StreamProcessor", self.space, self.name, {"spec": spec})

    def looked(self, condition):
        """That condition, looked at anew by the operator each time: it comes by every half minute by itself."""
        def look():
            self.world.admin.merge("StreamProcessor", self.space, self.name, {"metadata": {"annotations": {"test/look": str(next(LOOKS))}}})
            return condition()
        return look

    def secret(self):
        self.world.admin.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "kafka-user", "namespace": self.space},
                                 "stringData": {"password": self.kafka.users["alice"]}})

    def columns(self):
        """What `kubectl get sp` shows: READY, REASON, REPLICAS, TASKS, LAG; None where nothing is."""
        lines = self.world.cluster.kubectl("get", "sp", self.name, "-n", self.space).splitlines()
        starts = [found.start() for found in re.finditer(r"\S+", lines[0])] + [None]
        cells = dict(zip(lines[0].split(), (lines[1][begin:end].strip() or None for begin, end in zip(starts, starts[1:]))))
        return tuple(cells[name] for name in ("READY", "REASON", "REPLICAS", "TASKS", "LAG"))

    def wait_columns(self, *wanted):
        """Until they are so; ... is anything."""
        self.world.wait(lambda: all(part is ... or part == cell for part, cell in zip(wanted, self.columns())), f"the columns of {self.name} to be {wanted}")

    def wait_ready(self):
        self.world.wait_ready(self.space, self.name)

    def wait_reason(self, reason, kind="Ready"):
        return self.world.wait_reason(self.space, self.name, reason, kind=kind)

    def wait_said(self, reason, *words):
        """Until Ready is False for that reason, with these words in its message."""
        def said():
            status, why, message = self.world.condition(self.space, self.name)
            return status == "False" and why in reason.split("|") and all(word in message for word in words)
        self.world.wait(said, f"{self.name} to say {reason}: {words}")

    def conditions(self):
        return {each["type"]: each["status"] for each in self.status()["conditions"]}

    def status(self):
        return self.world.processor(self.space, self.name)["status"]

    def pods(self):
        return self.world.pods(self.space, self.name)

    def uids(self):
        return {name: pod["metadata"]["uid"] for name, pod in self.pods().items()}

    def report(self, pod):
        """What its sidecar says of itself."""
        with urllib.request.urlopen(f"http://{self.world.node.pods[f'{self.space}/{pod}'].ip}:7979/v1/tasks", timeout=30) as answer:
            return json.load(answer)

    def container(self, pod, which):
        inside = self.world.node.pods[f"{self.space}/{pod}"]
        return next(each for each in [*inside.inits, *inside.mains] if each.name == which)


READY = {"Ready": "True", "TopicsReady": "True", "WorkloadReady": "True", "Restored": "True"}


def test_from_apply_to_delete_under_load(life, kafka):
    config = kafka.client()
    it = Life(life, kafka, "life")
    load = begin(it, config)
    tail = verifier.Tail(config, it.outputs)
    load.begin()
    try:
        scale(it)
        roll(it)
        break_things(it)
        pause(it, load)
    finally:
        load.end()
    life.wait(lambda: verifier.check_offsets(config, it.group, it.inputs) == [], "all events to be processed")
    it.wait_columns("True", "Processing", "2", str(PARTITIONS), "0")
    assert tail.wait(lambda seen: len(seen) >= load.count, 300), "the reader that ran all the time to have seen all"
    problems = verifier.verify(config, group=it.group, inputs=it.inputs, outputs=it.outputs, changelog=it.changelog, state=None, tail=tail)
    tail.close()
    assert load.count > 2 * BACKLOG and problems == []
    end(it, config)


def begin(it, config):
    """What is missing is said, and nothing runs; when it is there, it goes on by itself."""
    it.apply(storage={"size": "1Gi", "storageClassName": "disk", "whenDeleted": "Delete", "whenScaled": "Delete"}, internalTopics={"whenDeleted": "Delete"})
    it.wait_said("SecretNotFound", "kafka-user")
    it.wait_columns("False", "SecretNotFound", ..., ..., ...)
    it.secret()
    it.wait_said("TopicMissing", it.inputs)
    it.wait_columns("False", "TopicMissing", "0", ..., ...)
    assert it.world.admin.get("StatefulSet", it.space, it.name) is None
    clients.create_topic(config, it.inputs, partitions=PARTITIONS)
    load = Load(config, it.inputs)
    load.add(BACKLOG)
    it.wait_ready()
    it.world.wait(lambda: it.conditions() == READY, "all conditions to be true")
    assert {kind for kind, _ in it.world.children(it.space, it.name)} == {*rig.CHILDREN, "Job"}
    there = clients.topics(config)
    assert {name: len(there[name]) for name in (it.outputs, it.changelog)} == {it.outputs: PARTITIONS, it.changelog: PARTITIONS}
    assert "compact" in clients.topic_config(config, it.changelog)["cleanup.policy"]
    assert clients.topic_config(config, it.outputs)["retention.ms"] == "3600000"
    it.wait_columns("True", "Processing", "1", str(PARTITIONS), "0")
    return load


def scale(it):
    """Out: the first pod stays; in: the pods that go give their tasks away first, and their disks go with them."""
    first = it.uids()
    it.world.cluster.kubectl("scale", f"sp/{it.name}", "-n", it.space, "--replicas=3")
    it.world.wait(lambda: len(it.pods()) == 3, "three pods")
    it.wait_ready()
    it.wait_columns("True", "Processing", "3", str(PARTITIONS), ...)
    it.world.cluster.kubectl("scale", f"sp/{it.name}", "-n", it.space, "--replicas=2")
    it.world.wait(lambda: len(it.pods()) == 2, "two pods")
    it.wait_ready()
    it.wait_columns("True", "Processing", "2", str(PARTITIONS), ...)
    assert first.items() <= it.uids().items()
    it.world.wait(lambda: {each["metadata"]["name"] for each in it.world.admin.list("PersistentVolumeClaim", it.space)} == {"state-life-0", "state-life-1"}, "the disk of the third to be gone")


def roll(it):
    """Another version of the program: one pod after the other, and it never stops being ready."""
    before = set(it.uids().values())
    it.change(container={"env": [{"name": "VERSION", "value": "2"}]})
    it.world.wait(lambda: not before & set(it.uids().values()), "both pods to be new")
    it.wait_ready()
    assert {"name": "VERSION", "value": "2"} in it.pods()["life-0"]["spec"]["containers"][0]["env"]
    it.world.wait(lambda: it.conditions() == READY, "all conditions to be true")


def break_things(it):
    """A worker that dies, the operator that dies, a broker that is away: each is said, or is nobody's business, and is over by itself."""
    worker = it.container("life-0", "worker")
    worker.kill()
    it.world.wait(lambda: worker.restarts >= 1 and worker.running, "the worker to be started again")
    it.world.restart_operator()
    it.wait_ready()
    pods = it.uids()
    it.kafka.brokers[0].kill()
    it.world.wait(it.looked(lambda: it.columns()[:2] in (("False", "NotInGroup"), ("False", "BrokersUnreachable"))), "the status to say that the broker is away")
    it.kafka.brokers[0].start()
    it.world.wait(it.looked(lambda: it.columns()[:2] == ("True", "Processing")), "the status to say that it is back")
    assert it.uids() == pods, "that is no reason to restart anything"


def pause(it, load):
    """Nothing is processed and nobody restarts; what has piled up is shown, and goes down."""
    load.end()
    pods = it.uids()
    it.world.wait(lambda: verifier.check_offsets(it.kafka.client(), it.group, it.inputs) == [], "all events so far to be processed")
    it.change(desiredState="Paused")
    it.wait_reason("Paused")
    it.world.wait(lambda: all(it.report(pod)["state"] == "Paused" for pod in pods), "the sidecars to have the order")
    assert it.columns()[:2] == ("False", "Paused")
    done = clients.committed(it.kafka.client(), it.group, it.inputs, range(PARTITIONS))
    load.add(BACKLOG)
    it.world.wait(lambda: it.columns()[4] not in (None, "0"), "the lag to be shown")
    assert clients.committed(it.kafka.client(), it.group, it.inputs, range(PARTITIONS)) == done
    it.change(desiredState="Running")
    it.wait_ready()
    it.wait_columns("True", "Processing", "2", str(PARTITIONS), "0")
    assert it.uids() == pods
    load.begin()


def end(it, config):
    """Deleted, with its topics and disks, as it was told; what others read stays."""
    it.world.cluster.kubectl("delete", f"sp/{it.name}", "-n", it.space, "--timeout=300s")
    it.world.wait(lambda: not it.pods() and not it.world.children(it.space, it.name), "its pods and objects to be gone")
    it.world.wait(lambda: not it.world.admin.list("PersistentVolumeClaim", it.space), "its disks to be gone")
    there = clients.topics(config)
    assert it.changelog not in there and {it.inputs, it.outputs} <= there.keys()
    assert clients.committed(config, it.group, it.inputs, range(PARTITIONS)) == {}


def test_a_program_that_fails_is_quoted_and_its_topics_are_kept(life, kafka):
    config = kafka.client()
    it = Life(life, kafka, "wrong")
    clients.create_topic(config, it.inputs, partitions=PARTITIONS)
    it.secret()
    it.apply(container={"image": WORKER, "env": [{"name": "LEDGER_PROCESSES", "value": "many"}]})
    it.wait_said("CrashLoopBackOff|ContainerFailed", "container worker", "invalid literal", "'many'")
    it.change(container={"env": None})
    it.wait_ready()
    it.world.cluster.kubectl("delete", f"sp/{it.name}", "-n", it.space, "--timeout=300s")
    life.wait(lambda: not it.pods(), "its pods to be gone")
    assert it.changelog in clients.topics(config), "topics are kept unless the manifest says otherwise"


def test_state_that_is_read_back_is_said(life, kafka):
    """A pod without a disk comes back and reads the changelog, slowly."""
    config = kafka.client()
    it = Life(life, kafka, "back")
    clients.create_topic(config, it.inputs, partitions=PARTITIONS)
    load = Load(config, it.inputs)
    load.add(BACKLOG)
    it.apply(kafka={"bootstrapServers": kafka.bootstrap("PLAINTEXT")})
    it.wait_ready()
    life.wait(lambda: verifier.check_offsets(config, it.group, it.inputs) == [], "all events to be processed")
    try:
        kafka.proxy.fault("Fetch", times=1_000_000, delay_response=60)
        life.cluster.kubectl("delete", "pod", "back-0", "-n", it.space, "--wait=false")
        it.wait_said("Restoring")
        it.wait_columns("False", "Restoring", ..., ..., ...)
        assert it.conditions()["Restored"] == "False"
        assert it.status()["tasks"]["restoring"] > 0
    finally:
        kafka.proxy.clear()
        kafka.proxy.cut_all()
    it.wait_ready()
    life.wait(lambda: it.conditions() == READY and it.status()["restore"]["bytesLeft"] == 0, "all conditions to be true")
    load.add(20)
    life.wait(lambda: verifier.check_offsets(config, it.group, it.inputs) == [], "all events to be processed")
    assert verifier.verify(config, group=it.group, inputs=it.inputs, outputs=it.outputs, changelog=it.changelog, state=None) == []
