"""The real node: containers run as a cluster would run them, find each other, keep their volumes; nothing gets out and nothing stays behind."""

import json
import os
import pathlib
import signal
import subprocess
import sys

import node as nodes
import pytest
from namespaces import Network
from test_namespaces import OBSTACLE, call, ended, traces, wait_until

import archive  # found where node.py looks for it
import recipes
import rootfs

COMMAND = pathlib.Path(__file__).resolve().parent / "command.py"
IMAGE = "localhost/test-python:1"
pytestmark = pytest.mark.skipif(OBSTACLE is not None, reason=str(OBSTACLE))

RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
POD = {"runAsNonRoot": True, "runAsUser": 65532, "runAsGroup": 65532, "fsGroup": 65532, "seccompProfile": {"type": "RuntimeDefault"}}
CONTAINER = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
SERVE = "import http.server, os; http.server.HTTPServer(('', 8080), http.server.SimpleHTTPRequestHandler).serve_forever()"
# Sleeps, and ends at once when it is told to: the first process of a container ignores what it has no handler for.
IDLE = "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(0)); [signal.pause() for _ in iter(int, 1)]"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    scratch = tmp_path_factory.mktemp("node")
    with nodes.ClusterWithNode(scratch / "run", kubelet={"nodeStatusUpdateFrequency": "2s"}) as made:
        rootfs.lay_out("python", scratch / "root", scratch, {"sdk:python": recipes.ROOT / "sdk" / "python" / "src"})
        layer = archive.pack(scratch / "root", scratch / "layer", level=1)
        archive.write(scratch / "image.tar", IMAGE, [layer], entrypoint=["/usr/bin/python3"], environment=recipes.config("python")[1], workdir="/", user="65532:65532")
        made.node.load(scratch / "image.tar")
        yield made


def container(script, **more):
    return {"name": "c", "image": IMAGE, "imagePullPolicy": "Never", "args": ["-c", script], "securityContext": CONTAINER, **more}


def pod(namespace, name, script, **more):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace, "labels": {"app": name}},
            "spec": {"terminationGracePeriodSeconds": 5, "securityContext": POD, "containers": [container(script)], **more}}


def is_ready(cluster, namespace, name):
    found = cluster.admin.get("Pod", namespace, name)
    return found and any(each["type"] == "Ready" and each["status"] == "True" for each in found["status"].get("conditions", []))


def run_to_end(cluster, namespace, name, script):
    """What the script printed in a pod of its own."""
    cluster.admin.create(pod(namespace, name, script, restartPolicy="Never"))
    phase = lambda: cluster.admin.get("Pod", namespace, name)["status"].get("phase")
    cluster.wait(lambda: phase() in ("Succeeded", "Failed"), f"pod {name} to end")
    printed = cluster.kubectl("logs", "-n", namespace, name)
    assert phase() == "Succeeded", printed
    return printed


def test_images_are_there(cluster):
    assert {IMAGE, nodes.PAUSE} <= set(cluster.node.images())


def test_a_pod_runs_as_nobody_in_a_restricted_namespace(cluster):
    cluster.namespace("restricted", RESTRICTED)
    printed = run_to_end(cluster, "restricted", "facts", "import os\n"
                         "status = dict(line.split(':', 1) for line in open('/proc/self/status'))\n"
                         "print(os.getuid(), int(status['CapEff'], 16), status['NoNewPrivs'].strip(), status['Seccomp'].strip(), os.access('/etc/passwd', os.W_OK))\n"
                         "try:\n open('/tmp/x', 'w')\nexcept OSError as error:\n print(error.strerror)")
    assert printed.splitlines() == ["65532 0 1 2 False", "Read-only file system"]
    refused = pod("restricted", "privileged", IDLE)
    refused["spec"]["containers"][0]["securityContext"] = {"privileged": True}
    with pytest.raises(Exception, match="violates PodSecurity"):
        cluster.admin.create(refused)


def test_pods_find_services_and_the_api_and_nothing_else(cluster):
    cluster.namespace("net")
    cluster.admin.create(pod("net", "web", SERVE))
    cluster.admin.create({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "net"},
                          "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]}})
    cluster.wait(lambda: is_ready(cluster, "net", "web"), "the web pod")
    printed = run_to_end(cluster, "net", "client", f"""
import errno, socket, ssl, time, urllib.error, urllib.request
end = time.monotonic() + 120
while True:
    try:
        print(urllib.request.urlopen("http://web/etc/group", timeout=5).status)
        break
    except OSError:
        if time.monotonic() > end: raise
        time.sleep(0.2)
try:
    urllib.request.urlopen("https://kubernetes.default.svc/api", timeout=20, context=ssl._create_unverified_context())
except urllib.error.HTTPError as error:
    print(error.code)
try:
    socket.create_connection(("192.0.2.1", 80), 20)
except OSError as error:
    print("unreachable" if error.errno in (errno.ENETUNREACH, errno.EHOSTUNREACH) else error)
try:
    socket.gethostbyname("no-such-name.example.com")
except socket.gaierror:
    print("no such name")
socket.create_connection(("{cluster.network.host}", {cluster.admin.port}), 20)
print("this machine")
""")
    assert printed.splitlines()[0] == "200" and printed.splitlines()[1] in ("401", "403")
    assert printed.splitlines()[2:] == ["unreachable", "no such name", "this machine"]


def test_a_volume_outlives_its_pod_and_belongs_to_the_group(cluster):
    cluster.namespace("kept")
    claim = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}}
    script = f"open('/data/starts', 'a').write('x'); {IDLE}"
    template = {"metadata": {"labels": {"app": "s"}}, "spec": {"terminationGracePeriodSeconds": 5, "securityContext": POD,
                                                               "containers": [container(script, volumeMounts=[{"name": "data", "mountPath": "/data"}])]}}
    cluster.admin.create({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "s", "namespace": "kept"},
                          "spec": {"serviceName": "s", "replicas": 1, "selector": {"matchLabels": {"app": "s"}}, "template": template, "volumeClaimTemplates": [claim],
                                   "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"}}})
    cluster.wait(lambda: is_ready(cluster, "kept", "s-0"), "the pod with a volume")
    first = cluster.admin.get("Pod", "kept", "s-0")["metadata"]["uid"]
    cluster.admin.delete("Pod", "kept", "s-0")
    cluster.wait(lambda: (cluster.admin.get("Pod", "kept", "s-0") or {"metadata": {"uid": first}})["metadata"]["uid"] != first and is_ready(cluster, "kept", "s-0"), "a new pod")
    (volume,) = cluster.admin.list("PersistentVolume")
    folder = pathlib.Path(volume["spec"]["local"]["path"])
    assert (folder / "starts").read_text(encoding="ascii") == "xx" and folder.stat().st_gid == 65532
    cluster.admin.delete("StatefulSet", "kept", "s")
    cluster.wait(lambda: not cluster.admin.list("PersistentVolume") and not folder.exists(), "the volume to go with its claim")


def test_an_image_that_is_not_there_is_said(cluster):
    cluster.namespace("missing")
    wanted = pod("missing", "p", IDLE)
    wanted["spec"]["containers"][0].update(image="localhost/none:1", imagePullPolicy="IfNotPresent")
    cluster.admin.create(wanted)

    def reason():
        statuses = cluster.admin.get("Pod", "missing", "p")["status"].get("containerStatuses", [{}])
        return statuses[0].get("state", {}).get("waiting", {}).get("reason")

    cluster.wait(lambda: reason() in ("ErrImagePull", "ImagePullBackOff"), "the pull to fail")
    cluster.admin.delete("Pod", "missing", "p", grace=0)


def test_containers_outlive_kubelet_and_containerd(cluster):
    cluster.namespace("steady")
    cluster.admin.create(pod("steady", "p", IDLE))
    cluster.wait(lambda: is_ready(cluster, "steady", "p"), "the pod")
    before = cluster.admin.get("Pod", "steady", "p")["status"]["containerStatuses"][0]["containerID"]
    cluster.node.restart("containerd")
    cluster.node.restart("kubelet")
    beat = lambda: next(each["lastHeartbeatTime"] for each in cluster.admin.get("Node", None, nodes.NAME)["status"]["conditions"] if each["type"] == "Ready")
    old = beat()
    cluster.wait(lambda: beat() != old and cluster.node.ready(), "the node to be ready again")
    cluster.wait(lambda: cluster.run("kubectl", "exec", "-n", "steady", "p", "--", "python3", "-c", "print(1 + 1)", check=False).stdout == "2\n", "kubectl exec to work again")
    (status,) = cluster.admin.get("Pod", "steady", "p")["status"]["containerStatuses"]
    assert (status["containerID"], status["restartCount"]) == (before, 0)


def call_command(tmp_path, *arguments):
    """With a cache folder of its own, so that runs of others are not seen; the programs are the ones of the common one."""
    cache = tmp_path / "millstream"
    if not cache.exists():
        cache.mkdir()
        for built in (nodes.programs.home(), nodes.pause_image()):
            (cache / built.name).symlink_to(built)
    return subprocess.run([sys.executable, str(COMMAND), *arguments], env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)}, capture_output=True, text=True, check=False, timeout=600)


def test_up_twice_is_one_and_down_leaves_nothing(tmp_path):
    started = call_command(tmp_path, "up", "node")
    assert started.returncode == 0, started.stderr
    folder = pathlib.Path(started.stdout.strip())
    try:
        assert call_command(tmp_path, "up", "node").stdout == started.stdout
        facts = json.loads((folder / "state.json").read_text(encoding="ascii"))
        number = int(facts["host"].split(".")[2])
        init = int(facts["enter"][facts["enter"].index("-t") + 1])
        assert nodes.NAME in call_command(tmp_path, "kubectl", "get", "nodes").stdout
        assert nodes.PAUSE in call_command(tmp_path, "node", "ctr", "-n", "k8s.io", "images", "list", "-q").stdout
    finally:
        assert call_command(tmp_path, "down").returncode == 0
    wait_until(lambda: not folder.exists() and ended(init), "the cluster to end")
    wait_until(lambda: not traces(Network(number)), "its traces to go")
    assert str(folder) not in call("mount")


def test_nothing_outlives_a_killed_owner(tmp_path):
    owner = subprocess.Popen([sys.executable, str(COMMAND), "run", "node", "--", "sh", "-c", "kubectl config view -o jsonpath={.clusters[0].cluster.server}; echo; echo $KUBECONFIG; sleep 1000"],
                             stdout=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(tmp_path)}, start_new_session=True)
    try:
        number = int(owner.stdout.readline().split("//")[1].split(".")[2])
        folder = pathlib.Path(owner.stdout.readline().strip()).parent
    finally:
        os.killpg(owner.pid, signal.SIGKILL)
        owner.wait()
        owner.stdout.close()
    wait_until(lambda: not folder.exists(), "its folder to go")
    wait_until(lambda: not traces(Network(number)), "its traces to go")
