"""The node that is none: what the operator's tests rely on is as with a real kubelet."""

import json
import sys
import urllib.request

import pytest
from container import program
from kubelet import Kubelet
from pretence import Pretence

# A sidecar that serves /healthz on its pod's address, writes what it is told into "seen", and ends on SIGTERM.
SIDECAR = """
import http.server, os, signal, sys, threading
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers()
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer((os.environ["POD_IP"], 7979), Answer)
signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
server.serve_forever()
open(os.path.join(sys.argv[1], "order"), "a").write("sidecar ")
"""
WORKER = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (open(os.path.join(sys.argv[1], "order"), "a").write("worker "), sys.exit(0)))
open(os.path.join(sys.argv[1], "up"), "w").write(str(os.getpid()))
while True: time.sleep(0.05)
"""
TEMPLATE = {
    "metadata": {"labels": {"app": "s"}, "annotations": {"orders": "first"}},
    "spec": {
        "terminationGracePeriodSeconds": 60,
        "initContainers": [{
            "name": "side", "image": "side:1", "args": ["/shared"], "restartPolicy": "Always", "ports": [{"name": "http", "containerPort": 7979}],
            "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
            "startupProbe": {"httpGet": {"path": "/healthz", "port": "http"}, "periodSeconds": 1, "failureThreshold": 600},
            "readinessProbe": {"httpGet": {"path": "/healthz", "port": "http"}, "periodSeconds": 1},
            "lifecycle": {"preStop": {"exec": {"command": ["sh", "-c", "printf 'preStop ' >>/shared/order"]}}},
            "volumeMounts": [{"name": "shared", "mountPath": "/shared"}, {"name": "orders", "mountPath": "/orders"}, {"name": "config", "mountPath": "/config"}]}],
        "containers": [{"name": "worker", "image": "worker:1", "args": ["/shared"], "volumeMounts": [{"name": "shared", "mountPath": "/shared"}]}],
        "volumes": [{"name": "shared", "emptyDir": {}}, {"name": "config", "configMap": {"name": "config"}},
                    {"name": "orders", "downwardAPI": {"items": [{"path": "orders", "fieldRef": {"fieldPath": "metadata.annotations['orders']"}}]}}],
    },
}


def python(text):
    return program(sys.executable, "-c", text)


@pytest.fixture
def node(cluster):
    with Kubelet(cluster, {"side:1": python(SIDECAR), "worker:1": python(WORKER), "sh:1": program("sh", "-c")}) as made:
        yield made


def pod(cluster, namespace, name):
    return cluster.admin.get("Pod", namespace, name)


def is_ready(thing):
    return thing is not None and any(each["type"] == "Ready" and each["status"] == "True" for each in thing.get("status", {}).get("conditions", []))


def simple(namespace, name, script, **more):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace},
            "spec": {"containers": [{"name": "c", "image": "sh:1", "args": [script], **more.pop("container", {})}], **more}}


def test_stateful_set_from_start_to_end(cluster, node):
    cluster.namespace("node-set")
    cluster.admin.create({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "s", "namespace": "node-set"}, "spec": {
        "serviceName": "s", "replicas": 2, "podManagementPolicy": "Parallel", "selector": {"matchLabels": {"app": "s"}}, "template": TEMPLATE}})
    # The ConfigMap is missing: the pods say so in events and start when it is there.
    cluster.wait(lambda: any("not found" in each["message"] for each in cluster.admin.list("Event", "node-set") if each["reason"] == "FailedMount"), "an event")
    cluster.admin.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "config", "namespace": "node-set"}, "data": {"a": "1"}})
    cluster.wait(lambda: (cluster.admin.get("StatefulSet", "node-set", "s")["status"].get("readyReplicas", 0)) == 2, "both pods to be ready")
    running = node.pods["node-set/s-0"]
    assert running.ip != node.pods["node-set/s-1"].ip
    # What it mounts follows what is changed, in one step.
    assert (running.volume("orders") / "orders").read_text(encoding="ascii") == "first"
    cluster.admin.merge("Pod", "node-set", "s-0", {"metadata": {"annotations": {"orders": "second"}}})
    cluster.admin.merge("ConfigMap", "node-set", "config", {"data": {"a": None, "b": "2"}})
    cluster.wait(lambda: (running.volume("orders") / "orders").read_text(encoding="ascii") == "second", "the new annotation")
    cluster.wait(lambda: {path.name for path in running.volume("config").iterdir() if not path.name.startswith("..")} == {"b"}, "the new configuration")
    # A killed container is started again; the pod is not ready meanwhile, and says what happened.
    running.mains[0].kill()
    cluster.wait(lambda: pod(cluster, "node-set", "s-0")["status"]["containerStatuses"][0]["restartCount"] == 1, "a restart")
    assert pod(cluster, "node-set", "s-0")["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 137
    cluster.wait(lambda: is_ready(pod(cluster, "node-set", "s-0")), "the pod to be ready again")
    # preStop first, the worker's SIGTERM beside it, the sidecar last; then the pod is made anew.
    cluster.wait(lambda: (running.volume("shared") / "up").read_text(encoding="ascii") == str(running.mains[0].process.pid), "the worker to be up")
    order, uid = [], running.uid
    seen = running.forget
    running.forget = lambda: (order.append((running.volume("shared") / "order").read_text(encoding="ascii")), seen())
    cluster.admin.delete("Pod", "node-set", "s-0")
    cluster.wait(lambda: is_ready(pod(cluster, "node-set", "s-0")) and pod(cluster, "node-set", "s-0")["metadata"]["uid"] != uid, "a new pod")
    cluster.wait(lambda: order, "the old one to be forgotten")
    assert sorted(order[0].split()[:2]) == ["preStop", "worker"] and order[0].split()[2:] == ["sidecar"]


@pytest.mark.parametrize(("script", "phase", "words"), [("printf done >$OUT", "Succeeded", "done"), ("printf 'it is broken\n'; exit 3", "Failed", "it is broken\n")])
def test_jobs_end_with_their_last_words(cluster, node, script, phase, words):
    name = phase.lower()
    cluster.namespace(f"node-job-{name}")
    node.images["job:1"] = program("sh", "-c", hook=lambda container, argv: ["env", f"OUT={container.termination}", *argv])
    cluster.admin.create({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": f"node-job-{name}"}, "spec": {"backoffLimit": 0, "template": {
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "job:1", "args": [script], "terminationMessagePolicy": "FallbackToLogsOnError"}]}}}})
    condition = {"Succeeded": "Complete", "Failed": "Failed"}[phase]
    cluster.wait(lambda: any(each["type"] == condition and each["status"] == "True"
                             for each in cluster.admin.get("Job", f"node-job-{name}", "j").get("status", {}).get("conditions", [])), f"the job to be {condition}")
    ended = cluster.admin.list("Pod", f"node-job-{name}")[0]["status"]
    assert ended["phase"] == phase
    assert ended["containerStatuses"][0]["state"]["terminated"]["message"] == words


def test_what_cannot_start_says_why(cluster, node):
    cluster.namespace("node-wrong")
    cluster.admin.create(simple("node-wrong", "image", "true", container={"image": "nowhere:1"}))
    cluster.admin.create(simple("node-wrong", "key", "sleep 100", container={"env": [{"name": "K", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]}))
    cluster.admin.create(simple("node-wrong", "crash", "exit 1"))

    def waits_for(name):
        statuses = (pod(cluster, "node-wrong", name) or {}).get("status", {}).get("containerStatuses", [])
        return statuses[0]["state"].get("waiting", {}).get("reason") if statuses else None

    cluster.wait(lambda: waits_for("image") in ("ErrImagePull", "ImagePullBackOff"), "the image to be missed")
    cluster.wait(lambda: waits_for("key") == "CreateContainerConfigError", "the secret to be missed")
    cluster.wait(lambda: waits_for("crash") == "CrashLoopBackOff", "the crash loop")
    cluster.admin.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "node-wrong"}, "stringData": {"k": "v"}})
    cluster.wait(lambda: is_ready(pod(cluster, "node-wrong", "key")), "the pod whose secret appeared")


def test_grace_ends_with_a_kill(cluster, node):
    cluster.namespace("node-deaf")
    cluster.admin.create(simple("node-deaf", "deaf", "trap '' TERM; while :; do sleep 0.1; done", terminationGracePeriodSeconds=1))
    cluster.wait(lambda: is_ready(pod(cluster, "node-deaf", "deaf")), "the pod")
    cluster.admin.delete("Pod", "node-deaf", "deaf")
    cluster.wait(lambda: pod(cluster, "node-deaf", "deaf") is None, "it to be gone")


def test_claims_are_bound_and_grow(cluster, node):
    cluster.namespace("node-claims")
    cluster.admin.create({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "grows"}, "provisioner": "test/none", "allowVolumeExpansion": True})
    cluster.admin.create({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c", "namespace": "node-claims"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "storageClassName": "grows", "resources": {"requests": {"storage": "1Gi"}}}})
    cluster.admin.create(simple("node-claims", "p", "echo kept >>/data/file; sleep 100", container={"volumeMounts": [{"name": "d", "mountPath": "/data"}]},
                                terminationGracePeriodSeconds=0, volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": "c"}}]))
    cluster.wait(lambda: is_ready(pod(cluster, "node-claims", "p")), "the pod with its claim")
    cluster.wait(lambda: (node.claim_folder("node-claims", "c") / "file").exists(), "what it wrote")
    cluster.admin.merge("PersistentVolumeClaim", "node-claims", "c", {"spec": {"resources": {"requests": {"storage": "2Gi"}}}})
    cluster.wait(lambda: cluster.admin.get("PersistentVolumeClaim", "node-claims", "c")["status"]["capacity"]["storage"] == "2Gi", "the claim to grow")


def test_pretended_pods_are_ready_at_once(cluster):
    cluster.namespace("node-pretend")
    pretence = Pretence(tasks=3)
    pretence.verdicts["node-pretend/j"] = {"message": "as it was told"}
    with Kubelet(cluster, pretence=pretence) as node:
        cluster.admin.create(simple("node-pretend", "p", "true"))
        cluster.admin.create(simple("node-pretend", "j", "true", restartPolicy="Never"))
        cluster.admin.create(simple("node-pretend", "wrong", "true", container={"image": "nowhere/c:1"}))
        cluster.wait(lambda: is_ready(pod(cluster, "node-pretend", "p")), "the pod")
        cluster.wait(lambda: pod(cluster, "node-pretend", "j")["status"]["phase"] == "Succeeded", "the job")
        assert json.loads(pod(cluster, "node-pretend", "j")["status"]["containerStatuses"][0]["state"]["terminated"]["message"])["message"] == "as it was told"
        with urllib.request.urlopen(f"http://{node.pods['node-pretend/p'].ip}:7979/v1/tasks", timeout=60) as answer:
            assert [task["task"] for task in json.load(answer)["tasks"]] == [0, 1, 2]
        cluster.wait(lambda: pod(cluster, "node-pretend", "wrong")["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] in ("ErrImagePull", "ImagePullBackOff"), "the image")
        cluster.admin.delete("Pod", "node-pretend", "p")
        cluster.wait(lambda: pod(cluster, "node-pretend", "p") is None, "it to be gone")
