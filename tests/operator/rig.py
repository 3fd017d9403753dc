"""The operator as people run it: its chart installed by helm on a real control plane, its pod a process of the fake node, with the rights that the
chart gives it and no others."""

import json
import os
import pathlib
import sys
import threading
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), *(str(ROOT / "tests" / "testbed" / part) for part in ("cluster", "kafka", ""))]
import pki  # noqa: E402
from api import Api, path_of  # noqa: E402
from container import program  # noqa: E402
from control_plane import ClusterFailed, ControlPlane  # noqa: E402
from kubelet import Kubelet  # noqa: E402
from pretence import Pretence  # noqa: E402
from processors import Processors  # noqa: E402

BUILD = pathlib.Path(os.environ.get("MILLSTREAM_BUILD_DIR", ROOT / "build"))
NAMESPACE, NAME = "millstream-system", "millstream-operator"
OPERATOR_IMAGE, SIDECAR_IMAGE = "test/operator:1", "test/sidecar:1"  # the sidecar's is not known to the node: it is pretended
TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount"
CHILDREN = ["StatefulSet", "Service", "ConfigMap", "ServiceAccount", "PodDisruptionBudget"]
OURS = {"labelSelector": "app.kubernetes.io/name=streamprocessor"}


class Unfulfilled(Exception):
    """Something waited for did not come; the message ends with what the operator said."""


def in_cluster(container, argv):
    """What the operator finds in a real pod at fixed places: the token of its service account, as a file; its address is its own."""
    api = container.pod.kubelet.cluster
    path = pki.kubeconfig(container.folder / "kubeconfig", api.url, api.authority.ca, token_file=pathlib.Path(container.on_host(TOKEN)) / "token", namespace=NAMESPACE)
    return [*(part.replace("0.0.0.0", container.pod.ip) for part in argv), f"--kubeconfig={path}"]


class World(Processors):
    """A control plane with a node, the chart and an operator. close() ends all of it.

    values   of the chart, for --set-json
    tasks    of every pretended processor
    """

    def __init__(self, folder, *, values=None, images=None, tasks=4, replicas=1):
        self.cluster = ControlPlane(folder, audit=True)
        self.values = {"image": {"registry": "", "repository": "test/operator", "tag": "1"}, "sidecar.image": {"registry": "", "repository": "test/sidecar", "tag": "1"},
                       "replicas": replicas, "log.level": "debug", **(values or {})}
        self.pretence = Pretence(tasks)
        self.images = {OPERATOR_IMAGE: program(str(BUILD / "bin" / "millstream-operator"), hook=in_cluster), **(images or {})}
        self.node = None

    def start(self):
        try:
            self.cluster.start()
            self.node = Kubelet(self.cluster, self.images, pretence=self.pretence).start()
            self.cluster.namespace(NAMESPACE)
            self.install()
        except BaseException:
            self.close()
            raise
        return self

    __enter__ = start

    def __exit__(self, *_):
        self.close()

    def close(self):
        try:
            if self.node:
                self.node.close()
        finally:
            self.cluster.close()

    def install(self):
        sets = [part for name, value in self.values.items() for part in ("--set-json", f"{name}={json.dumps(value)}")]
        self.cluster.helm("upgrade", "--install", "millstream", ROOT / "helm" / "millstream", "--namespace", NAMESPACE, *sets)
        self.cluster.established("streamprocessors.millstream.dev")
        self.wait(lambda: self.operators() and all(each.mains[0].ready for each in self.operators()), "the operator to be ready")

    @property
    def admin(self):
        return self.cluster.admin

    def wait(self, condition, what):
        try:
            self.cluster.wait(condition, what)
        except ClusterFailed as error:
            raise Unfulfilled(f"{str(error).splitlines()[0]}\n{self.describe()}") from error

    def describe(self):
        """For a person who looks at a failed test."""
        told = [{"of": f"{each['metadata']['namespace']}/{each['metadata']['name']}", "status": each.get("status")} for each in self.admin.list("StreamProcessor")]
        pods = [{"pod": f"{each['metadata']['namespace']}/{each['metadata']['name']}", "status": each.get("status")} for each in self.admin.list("Pod", **OURS)]
        return "\n".join([*map(json.dumps, [*told, *pods]), self.log()[-6000:]])

    # ---------------------------------------------------------------- the operator

    def operators(self):
        """Its pods on the node."""
        return [pod for key, pod in sorted(self.node.pods.items()) if key.startswith(f"{NAMESPACE}/") and pod.spec["containers"][0]["name"] == "operator"]

    def operator(self):
        return self.operators()[0]

    def log(self):
        return "".join(each.mains[0].log() for each in self.operators())

    def metrics(self):
        """{name with labels: value} of the first pod."""
        with urllib.request.urlopen(f"http://{self.operator().ip}:8080/metrics", timeout=60) as answer:
            lines = answer.read().decode().splitlines()
        return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in lines if line and not line.startswith("#")}

    def restart_operator(self):
        """SIGKILL; the node starts it again."""
        container = self.operator().mains[0]
        before = container.restarts
        container.kill()
        self.wait(lambda: container.restarts > before and container.ready, "the operator to be back")

    def stop_operator(self):
        self.cluster.kubectl("scale", "deployment", NAME, "-n", NAMESPACE, "--replicas=0")
        self.wait(lambda: not self.operators(), "the operator to be gone")

    def start_operator(self, replicas=1):
        self.cluster.kubectl("scale", "deployment", NAME, "-n", NAMESPACE, f"--replicas={replicas}")
        self.wait(lambda: len(self.operators()) == replicas and all(each.mains[0].ready for each in self.operators()), "the operator to be back")

    def calls(self):
        """What it asked of the API server so far."""
        return self.cluster.requests(f":{NAMESPACE}:{NAME}")

    # ---------------------------------------------------------------- processors

    def children(self, namespace, name):
        """{(kind, name): object} of what carries the processor's labels, pods not among them."""
        select = {"labelSelector": f"{OURS['labelSelector']},app.kubernetes.io/instance={name}"}
        return {(kind, each["metadata"]["name"]): each for kind in [*CHILDREN, "Job"] for each in self.admin.list(kind, namespace, **select)}

    def pods(self, namespace, name):
        """{name: Pod}, Jobs' pods not among them."""
        select = {"labelSelector": f"{OURS['labelSelector']},app.kubernetes.io/instance={name}"}
        return {each["metadata"]["name"]: each for each in self.admin.list("Pod", namespace, **select) if each["spec"].get("restartPolicy") != "Never"}


def processor(namespace, name, **spec):
    """A small one; None removes a default."""
    whole = {"kafka": {"bootstrapServers": "kafka:9092"}, "inputs": [{"topic": f"{name}-in"}], "stores": [{"name": "totals"}],
             "container": {"image": "test/worker:1"}, **spec}
    return {"apiVersion": "millstream.dev/v1alpha1", "kind": "StreamProcessor", "metadata": {"name": name, "namespace": namespace},
            "spec": {key: value for key, value in whole.items() if value is not None}}


class Watcher:
    """Writes down every version of objects of one kind in a namespace, from a thread; `seen` may be read any time."""

    def __init__(self, world, kind, namespace):
        self.seen, self.ended = [], False
        api = Api(world.admin.port, world.cluster.authority.ca, certificate=world.cluster.authority.issue("admin", "/O=system:masters/CN=admin"))
        version = api.call("GET", path_of(kind, namespace))["metadata"]["resourceVersion"]
        self.thread = threading.Thread(target=self._run, args=(api, kind, namespace, version), daemon=True)
        self.thread.start()

    def _run(self, api, kind, namespace, version):
        for event, thing in api.watch(kind, namespace, resource_version=version, seconds=600):
            if self.ended:
                return
            if event != "BOOKMARK":
                self.seen.append((event, thing))

    def close(self):
        self.ended = True
