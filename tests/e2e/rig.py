"""The product as it is used: pods of real containers on a real kubelet, the operator installed by its chart, a real Kafka that pods reach."""

import contextlib
import json
import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "tests" / "testbed" / "cluster"), str(ROOT / "tests" / "testbed" / "kafka"), str(ROOT / "images"), str(ROOT / "tests" / "testbed")]
import app  # noqa: E402
import build  # noqa: E402
import keeper  # noqa: E402
import reachable  # noqa: E402
from control_plane import ClusterFailed  # noqa: E402
from node import ClusterWithNode  # noqa: E402
from processors import Processors  # noqa: E402

BUILD = pathlib.Path(os.environ.get("MILLSTREAM_BUILD_DIR", ROOT / "build"))
NAMESPACE, NAME = "millstream-system", "millstream-operator"
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
WORKER = "ledger:1"


class World(Processors):
    """A cluster with a node, a broker, the images; with install(), the operator. close() ends all of it."""

    def __init__(self, folder, **options):
        self.folder = pathlib.Path(folder)
        self.cluster = ClusterWithNode(self.folder, **options)
        self.stack = contextlib.ExitStack()
        self.kafka = None

    def start(self):
        try:
            self.stack.enter_context(self.cluster)
            self.kafka = self.stack.enter_context(reachable.broker(self.folder / "kafka", self.cluster, secure=True))
            made = build.build(["operator", "sidecar"], self.folder / "archives", BUILD / "bin")
            for facts in made.values():
                self.cluster.node.load(facts["archive"])
        except BaseException:
            self.close()
            raise
        return self

    __enter__ = start

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.stack.close()

    @property
    def admin(self):
        return self.cluster.admin

    def environment(self):
        """For programs of a person who works with it."""
        return {**os.environ, **self.cluster.environment(), "PATH": f"{self.cluster.bin}:{BUILD / 'bin'}:{os.environ['PATH']}",
                "MILLSTREAM_CLUSTER": str(self.folder), "MILLSTREAM_KAFKA": self.kafka.bootstrap(), "MILLSTREAM": str(ROOT)}

    def image(self, name, files, entrypoint=None, base="python"):
        """Makes and loads the image of a program; the first file is what runs."""
        path = app.Base(self.folder / "images", base).image(self.folder / "image.tar", name, files, entrypoint)
        self.cluster.node.load(path)
        return name

    def install(self, **values):
        sets = [part for name, value in values.items() for part in ("--set-json", f"{name}={json.dumps(value)}")]
        self.cluster.helm("upgrade", "--install", "millstream", ROOT / "helm" / "millstream", "--namespace", NAMESPACE, "--create-namespace", *sets)
        self.cluster.established("streamprocessors.millstream.dev")
        self.cluster.kubectl("rollout", "status", f"deployment/{NAME}", "-n", NAMESPACE, "--timeout=250s")

    # ---------------------------------------------------------------- processors

    def wait(self, condition, what, deadline=None):
        try:
            self.cluster.wait(condition, what, *([deadline] if deadline else []))
        except ClusterFailed as error:
            raise ClusterFailed(f"{error}\n{self.describe()}") from error

    def describe(self):
        """For a person who looks at a failed test."""
        told = [json.dumps({each["metadata"]["name"]: each.get("status")}) for each in self.admin.list("StreamProcessor")]
        pods = self.cluster.kubectl("get", "pods", "-A", "-o", "wide", check=False)
        events = self.cluster.kubectl("get", "events", "-A", "--sort-by=.lastTimestamp", check=False)
        operator = self.cluster.kubectl("logs", "-n", NAMESPACE, f"deployment/{NAME}", "--tail=40", check=False)
        return "\n".join([*told, pods, events[-4000:], operator])

    def patch(self, namespace, name, spec):
        self.admin.merge("StreamProcessor", namespace, name, {"spec": spec})

    def pod(self, namespace, name):
        return self.admin.get("Pod", namespace, name)

    def container(self, namespace, pod, name):
        """Its status: restartCount, state, lastState, ready; {} while there is none."""
        status = (self.pod(namespace, pod) or {}).get("status", {})
        every = [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]
        return next((each for each in every if each["name"] == name), {})

    def pid(self, namespace, pod, container):
        """Of the container's first process, in the node; who kills it does what the kernel does when memory is out."""
        (found,) = [line.split()[1] for line in self.cluster.node.run("ctr", "-n", "k8s.io", "tasks", "list").stdout.splitlines()
                    if line.startswith(self.container(namespace, pod, container)["containerID"].rsplit("/", 1)[1])]
        return found

    def kill(self, namespace, pod, container, number="KILL"):
        self.cluster.node.run("kill", f"-{number}", self.pid(namespace, pod, container))

    def inside(self, namespace, pod, container, *command, check=True):
        """What a command prints in a container."""
        return self.cluster.run("kubectl", "exec", "-n", namespace, pod, "-c", container, "--", *command, check=check)


def condition_of(pod, kind):
    return next((each["status"] for each in (pod or {}).get("status", {}).get("conditions", []) if each["type"] == kind), None)


def processor(namespace, name, **spec):
    whole = {"kafka": {"bootstrapServers": reachable.ADDRESS}, "inputs": [{"name": "events", "topic": f"{name}-in"}], "stores": [{"name": "ledger"}],
             "outputs": [{"name": "seen", "topic": f"{name}-out", "create": {"partitions": 4}}], "storage": {"size": "64Mi"},
             "container": {"image": WORKER, "resources": {"limits": {"memory": "128Mi"}}}, **spec}
    return {"apiVersion": "millstream.dev/v1alpha1", "kind": "StreamProcessor", "metadata": {"name": name, "namespace": namespace},
            "spec": {key: value for key, value in whole.items() if value is not None}}
