"""A control plane with one real node: containerd, kubelet, kube-proxy, a DNS and local volumes, in namespaces of their own. Containers run, from images
that are brought as archives; there is no registry and no way out.

    with ClusterWithNode(folder) as cluster:
        cluster.node.load("sidecar.tar")           # an OCI archive (images/build.py makes them)
        cluster.kubectl("run", "p", "--image=docker.io/millstream/sidecar:0.1.0")
        cluster.network.host                       # this machine as pods see it: a broker for them listens there

Needs root and the packages of the group `node` (tools/packages). Several may run at once; each has addresses of its own. Not thread-safe; the Api
objects are.
"""

import hashlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[2] / "images")]
import archive  # noqa: E402
import node_files  # noqa: E402
import programs  # noqa: E402
from control_plane import DEADLINE, DOMAIN, ClusterFailed, ControlPlane, Process  # noqa: E402
from distribution import locked  # noqa: E402
from namespaces import Namespaces, NoRoom  # noqa: E402

NAME = "node1"
PAUSE = "localhost/pause:1"
TOOLS = {"containerd": "containerd", "ctr": "containerd", "runc": "runc", "iptables": "iptables", "cc": "g++"}
PLUGINS = pathlib.Path("/usr/lib/cni")
DNS_RIGHTS = [{"apiGroups": [""], "resources": ["services", "namespaces", "pods"], "verbs": ["list", "watch"]},
              {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]}]
# fsGroup holds for its volumes, as they are of the kind `local` (programs/kubernetes/localpv).
STORAGE_CLASS = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
                 "metadata": {"name": "standard", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
                 "provisioner": "test/local", "volumeBindingMode": "WaitForFirstConsumer", "reclaimPolicy": "Delete"}


def missing_tools():
    """Debian packages that a node needs and this machine has not."""
    found = {package for tool, package in TOOLS.items() if shutil.which(tool) is None}
    return sorted(found | (set() if (PLUGINS / "bridge").exists() else {"containernetworking-plugins"}))


def pause_image():
    """The archive of the image that every pod starts with, made once."""
    source = HERE / "pause.c"
    target = programs.CACHE / f"pause-{hashlib.sha256(source.read_bytes()).hexdigest()[:12]}.tar"
    if target.exists():
        return target
    with locked(programs.CACHE / "pause.lock"):
        if not target.exists():
            scratch = target.with_suffix(".folder")
            shutil.rmtree(scratch, ignore_errors=True)
            (scratch / "root").mkdir(parents=True)
            done = subprocess.run(["cc", "-Os", "-static", "-s", "-o", str(scratch / "root" / "pause"), str(source)], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
            if done.returncode != 0:
                raise ClusterFailed(f"the pause program does not compile:\n{done.stdout}")
            layer = archive.pack(scratch / "root", scratch / "layer")
            archive.write(target, PAUSE, [layer], entrypoint=["/pause"], environment=[], workdir="/", user="65535:65535")
            shutil.rmtree(scratch)
    return target


def reached_directly(network):
    """Settings with which no program looks for these addresses behind a proxy: Go's and Python's do not count them as this machine's own."""
    known = [os.environ.get("NO_PROXY") or os.environ.get("no_proxy") or "127.0.0.1,localhost", network.host, network.node, str(network.pods), str(network.services)]
    return {name: ",".join(known) for name in ("NO_PROXY", "no_proxy")}


class NodeProcess(Process):
    """One program in the namespaces. Signals go to it, not to the nsenter that waits for it."""

    def __init__(self, name, folder, watchdog, enter, command):
        super().__init__(name, folder, watchdog, [*enter, *command])

    def pid(self):
        """Of the program, seen from outside."""
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        end = time.monotonic() + DEADLINE
        while self.alive() and time.monotonic() < end:
            if found := children.read_text(encoding="ascii").split():
                return int(found[0])
            time.sleep(0.02)
        raise ClusterFailed(f"{self.name} is not running:\n{self.log()[-3000:]}")

    def kill(self, number=signal.SIGKILL):
        if self.process and self.alive():
            try:
                os.kill(self.pid(), number)
            except (ClusterFailed, ProcessLookupError):
                self.process.kill()  # it ended by itself meanwhile
        if self.process:
            self.process.wait()
            self.watchdog.tell("end", self.process.pid)
            self.process = None

    def pause(self):
        """Stopped as a machine that hangs; go_on() ends that."""
        os.kill(self.pid(), signal.SIGSTOP)

    def go_on(self):
        os.kill(self.pid(), signal.SIGCONT)
        os.kill(self.process.pid, signal.SIGCONT)  # nsenter stops itself when its child is stopped

    def memory(self):
        return int(pathlib.Path(f"/proc/{self.pid()}/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Node:
    """The node of one cluster. open() makes its room, before the control plane starts: the API server listens at its outer end; join() starts its
    programs. processes["kubelet"] and the like may be killed, started, paused."""

    def __init__(self, folder, kubelet=None):
        self.folder, self.kubelet = pathlib.Path(folder).resolve(), dict(kubelet or {})
        self.room = Namespaces(self.folder, NAME, remove=self.folder.parent)
        self.cluster = None

    @property
    def network(self):
        return self.room.network

    def open(self):
        if missing := missing_tools():
            raise NoRoom(f"a node needs packages that are not installed: apt-get install {' '.join(missing)}")
        self.room.open()

    def close(self):
        """Ends and removes all of it, with the folder of the cluster."""
        self.room.close()

    def join(self, cluster):
        self.cluster = cluster
        users = node_files.write(self.folder, self.network, cluster, NAME, self.kubelet)
        self._start("containerd", "containerd", "-c", self.folder / "containerd.toml")
        self._wait_for_containerd()
        self.load(pause_image())
        self._start("kubelet", cluster.bin / "kubelet", f"--config={self.folder}/kubelet.json", f"--kubeconfig={users['kubelet']}", f"--hostname-override={NAME}",
                    f"--node-ip={self.network.node}")
        self._start("kube-proxy", cluster.bin / "kube-proxy", f"--config={self.folder}/kube-proxy.json")
        self._grant_dns()
        self._start("kube-dns", cluster.bin / "kube-dns", "-listen", f"{self.network.gateway}:53", "-kubeconfig", users["dns"], "-domain", DOMAIN)
        (self.folder / "volumes").mkdir(exist_ok=True)
        cluster.admin.apply(STORAGE_CLASS)
        self._start("kube-localpv", cluster.bin / "kube-localpv", "-kubeconfig", users["volumes"], "-dir", self.folder / "volumes")
        cluster.wait(self.ready, "the node to be ready")
        cluster.wait(lambda: "serving" in cluster.processes["kube-dns"].log(), "the cluster's DNS")

    def _start(self, name, *command):
        process = NodeProcess(name, self.cluster.folder, self.cluster.watchdog, self.room.enter, command)
        self.cluster.processes[name] = process
        process.start()

    def _wait_for_containerd(self, times=1):
        """Until it serves kubelet, for the so many-th time: one that asks before is told "server is not initialized yet", and ends."""
        log = self.cluster.processes["containerd"].log
        self.cluster.wait(lambda: log().count("Start streaming server") >= times, "containerd")

    def _grant_dns(self):
        group = "rbac.authorization.k8s.io"
        self.cluster.admin.apply({"apiVersion": f"{group}/v1", "kind": "ClusterRole", "metadata": {"name": "cluster-dns"}, "rules": DNS_RIGHTS})
        self.cluster.admin.apply({"apiVersion": f"{group}/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "cluster-dns"},
                                  "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-dns"},
                                  "subjects": [{"apiGroup": group, "kind": "User", "name": "cluster-dns"}]})

    # ---------------------------------------------------------------- for tests

    def ready(self):
        found = self.cluster.admin.get("Node", None, NAME)
        return found and any(each["type"] == "Ready" and each["status"] == "True" for each in found["status"].get("conditions", []))

    def run(self, *command, check=True):
        """A command inside the node; a subprocess.CompletedProcess."""
        done = subprocess.run([*self.room.enter, *map(str, command)], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=DEADLINE)
        if check and done.returncode != 0:
            raise ClusterFailed(f"in the node: {' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def load(self, path):
        """The image of an OCI archive, under the name the archive says. Pods must not ask for it with imagePullPolicy Always."""
        self.run("ctr", "-n", "k8s.io", "images", "import", pathlib.Path(path).resolve())

    def images(self):
        """Names of what was loaded."""
        return sorted(name for name in self.run("ctr", "-n", "k8s.io", "images", "list", "-q").stdout.split() if not name.startswith("sha256:"))

    def restart(self, name):
        """One of its programs, killed and started again on what it left. Containers go on."""
        process = self.cluster.processes[name]
        before = process.log().count("Start streaming server")
        process.kill()
        process.start()
        if name == "containerd":
            self._wait_for_containerd(before + 1)


class ClusterWithNode(ControlPlane):
    """A ControlPlane whose API server listens where the node reaches it. kubelet: more of its configuration ({"nodeStatusUpdateFrequency": "1s"})."""

    def __init__(self, folder, *, kubelet=None, **options):
        super().__init__(folder, **{**options, "scheduler": True})
        self.node = Node(self.folder / "node", kubelet)

    @property
    def network(self):
        return self.node.network

    def start(self):
        try:
            self.node.open()
            self.host, self.services = self.network.host, str(self.network.services)
            os.environ.update(reached_directly(self.network))  # the cluster's programs, and urllib here
            super().start()
            self.node.join(self)
        except BaseException:
            self.close()
            raise
        return self

    __enter__ = start

    def close(self):
        # The control plane's programs and the node's first; then the containers, with the namespaces.
        self._end()
        self.node.close()
        super().close()

    def environment(self):
        return {**super().environment(), **{name: os.environ[name] for name in ("NO_PROXY", "no_proxy")}}

    def _node_flags(self):
        certificate, key = self.authority.issue("apiserver-kubelet", "/O=system:masters/CN=apiserver-kubelet")
        return [f"--kubelet-client-certificate={certificate}", f"--kubelet-client-key={key}", f"--kubelet-certificate-authority={self.authority.ca}",
                "--kubelet-preferred-address-types=InternalIP"]

    def _patience_with_nodes(self):
        return []  # as in any cluster: a node that says nothing for 50 s is given up (controller_flags: sooner)
