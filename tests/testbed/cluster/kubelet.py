"""A node that is none: plays scheduler, kubelet and volume provisioner for a ControlPlane. Pods become processes on this machine, each pod with an
address of its own in 127.0.0.0/8, their volumes folders; or, with pretence=Pretence(), those of unknown images are nothing at all and say that they
are ready.

    with Kubelet(cluster, images={"worker:1": program("python3", "worker.py")}) as node:
        node.pods["shop/totals-0"].mains[0].kill()

An image is what container.program() makes of it; an unknown one cannot be pulled. Threads of its own; what tests may touch is said at each.
"""

import contextlib
import http.client
import pathlib
import queue
import random
import shutil
import socket
import ssl
import tempfile
import threading
import time

from api import ApiError, path_of
from brokers import Watchdog
from container import stamp
from pod import Pod

UNREACHABLE = (ConnectionError, TimeoutError, ssl.SSLError, http.client.HTTPException)
STEP = 0.1  # seconds between looks at what runs
STEPPERS = 4  # threads: a step may wait for a probe
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "fake", "labels": {"kubernetes.io/hostname": "fake", "kubernetes.io/os": "linux"}}}
PORTS = (7979, 8080)  # that pods of ours listen on
RANDOM = random.SystemRandom()


def free_address():
    """An address of this machine on which nobody has the ports of our pods: other test runs choose, too."""
    while True:
        address = f"127.{RANDOM.randrange(16, 250)}.{RANDOM.randrange(256)}.{RANDOM.randrange(1, 255)}"
        with contextlib.suppress(OSError), contextlib.ExitStack() as probes:
            for port in PORTS:
                probes.enter_context(socket.socket()).bind((address, port))
            return address


class Kubelet:
    """hurry: probes run that much more often than their specification says."""

    def __init__(self, cluster, images=None, *, pretence=None, environment=None, hurry=0.2):
        self.cluster, self.api, self.images = cluster, cluster.admin, dict(images or {})
        self.pretence, self.environment, self.hurry = pretence, dict(environment or {}), hurry
        self.folder = None  # short, as sockets in it have paths of at most 107 bytes
        self.pods = {}  # "namespace/name" -> Pod; tests may read
        self.told = {}  # uid -> the last status told
        self.events_told = set()
        self.sources = {}  # (kind, namespace, name) -> ConfigMap or Secret
        self.due, self.waiting = queue.Queue(), set()  # what is in the queue
        self.ended = threading.Event()
        self.paused = threading.Event()
        self.lock = threading.RLock()
        self.threads, self.failures = [], []
        self.watchdog = None

    # ---------------------------------------------------------------- life

    def start(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ms-node.", dir="/tmp"))
        self.watchdog = Watchdog(self.folder)
        with contextlib.suppress(ApiError):
            self.api.create(NODE)
        self.api.merge("Node", None, "fake", {"status": {"capacity": {"cpu": "64", "memory": "256Gi", "pods": "10000"},
                                                         "allocatable": {"cpu": "64", "memory": "256Gi", "pods": "10000"},
                                                         "conditions": [{"type": "Ready", "status": "True", "reason": "Fake", "message": "",
                                                                         "lastHeartbeatTime": stamp(time.time()), "lastTransitionTime": stamp(time.time())}]}},
                       subresource="status")
        self._thread(self._watch, "Pod", self._pod_event)
        self._thread(self._watch, "PersistentVolumeClaim", self._claim_event)
        for kind in ("ConfigMap", "Secret"):
            self._thread(self._watch, kind, self._source_event)
        for _ in range(STEPPERS):
            self._thread(self._step_loop)
        self._thread(self._tick_loop)
        return self

    __enter__ = start

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Ends everything that runs; the API server is not told. Raises what went wrong in its threads."""
        self.ended.set()
        for _ in self.threads:
            self.due.put(None)
        for thread in self.threads:
            if thread.name != "watch":  # they end with the API server, or with this process
                thread.join()
        for pod in list(self.pods.values()):
            pod.forget()
        if self.pretence:
            self.pretence.close()
        self.watchdog.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        if self.failures:
            raise self.failures[0]

    def _thread(self, run, *arguments):
        thread = threading.Thread(target=run, args=arguments, daemon=True, name="watch" if arguments else "step")
        self.threads.append(thread)
        thread.start()

    # ---------------------------------------------------------------- what the API server wants

    def _watch(self, kind, handle):
        """Lists and watches for ever; what was deleted meanwhile is told as deleted."""
        known = {}
        while not self.ended.is_set():
            try:
                listed = self.api.call("GET", path_of(kind))
                now = {(each["metadata"]["namespace"], each["metadata"]["name"]): each for each in listed["items"]}
                for key in known.keys() - now.keys():
                    handle("DELETED", {**known[key], "kind": kind})
                for thing in now.values():
                    handle("MODIFIED", {**thing, "kind": kind})
                known = now
                for event, thing in self.api.watch(kind, resource_version=listed["metadata"]["resourceVersion"]):
                    if self.ended.is_set():
                        return
                    if event != "BOOKMARK":
                        key = (thing["metadata"]["namespace"], thing["metadata"]["name"])
                        known = {**known, key: thing} if event != "DELETED" else {each: one for each, one in known.items() if each != key}
                        handle(event, thing)
            except (*UNREACHABLE, ValueError, ApiError):
                self.ended.wait(0.2)

    def _pod_event(self, event, thing):
        key = f"{thing['metadata']['namespace']}/{thing['metadata']['name']}"
        with self.lock:
            pod = self.pods.get(key)
            if pod and (event == "DELETED" or pod.uid != thing["metadata"]["uid"]):
                del self.pods[key]
                pod.gone = True
                self._enqueue("forget", pod)
                pod = None
            if event == "DELETED" or (pod is None and thing.get("status", {}).get("phase") in ("Succeeded", "Failed")):
                return
            if pod is None:
                pod = self.pods[key] = Pod(self, thing, free_address())
            pod.thing = thing
        if not thing["spec"].get("nodeName"):
            self._enqueue("bind", pod)
        else:
            self._enqueue("refresh", pod)

    def _source_event(self, event, thing):
        key = (thing["kind"], thing["metadata"]["namespace"], thing["metadata"]["name"])
        with self.lock:
            if event == "DELETED":
                self.sources.pop(key, None)
            else:
                self.sources[key] = thing
            about = [pod for pod in self.pods.values() if pod.namespace == key[1]]
        for pod in about:
            self._enqueue("refresh", pod)

    def _claim_event(self, event, claim):
        """Every claim gets a volume of the size it asks for, also later."""
        metadata, status = claim["metadata"], claim.get("status", {})
        if event == "DELETED":
            shutil.rmtree(self.claim_folder(metadata["namespace"], metadata["name"]), ignore_errors=True)
            self.api.delete("PersistentVolume", None, f"pv-{metadata['uid']}")
            return
        asked = claim["spec"]["resources"]["requests"]
        if not claim["spec"].get("volumeName") and not metadata.get("deletionTimestamp"):
            with contextlib.suppress(ApiError):
                self.api.create({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": f"pv-{metadata['uid']}"}, "spec": {
                    "capacity": asked, "accessModes": claim["spec"]["accessModes"], "storageClassName": claim["spec"].get("storageClassName", ""),
                    "persistentVolumeReclaimPolicy": "Retain", "hostPath": {"path": "/none"},
                    "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": metadata["namespace"], "name": metadata["name"],
                                 "uid": metadata["uid"]}}})
        elif status.get("phase") == "Bound" and status.get("capacity", {}).get("storage") != asked["storage"]:
            self.api.merge("PersistentVolume", None, claim["spec"]["volumeName"], {"spec": {"capacity": asked}})
            self.api.merge("PersistentVolumeClaim", metadata["namespace"], metadata["name"], {"status": {"capacity": asked}}, subresource="status")

    # ---------------------------------------------------------------- what pods ask

    def look_up(self, kind, namespace, name):
        with self.lock:
            return self.sources.get((kind, namespace, name))

    def claim_folder(self, namespace, name):
        return self.folder / "c" / namespace / name

    def claim_bound(self, namespace, name):
        claim = self.api.get("PersistentVolumeClaim", namespace, name)
        return claim is not None and claim.get("status", {}).get("phase") == "Bound"

    def event(self, pod, reason, message):
        """An Event about a pod, once for each message."""
        metadata = pod["metadata"]
        if (metadata["uid"], message) in self.events_told:
            return
        self.events_told.add((metadata["uid"], message))
        now = stamp(time.time())
        with contextlib.suppress(ApiError):  # the namespace may be on its way out
            self.api.create({"apiVersion": "v1", "kind": "Event", "metadata": {"generateName": f"{metadata['name']}.", "namespace": metadata["namespace"]},
                             "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": metadata["namespace"], "name": metadata["name"],
                                                "uid": metadata["uid"]}, "reason": reason, "message": message, "type": "Warning", "count": 1,
                             "firstTimestamp": now, "lastTimestamp": now, "source": {"component": "kubelet", "host": "fake"}})

    # ---------------------------------------------------------------- steps

    def _tick_loop(self):
        while not self.ended.wait(STEP):
            if not self.paused.is_set():
                with self.lock:
                    pods = list(self.pods.values())
                for pod in pods:
                    if not pod.thing["spec"].get("nodeName"):
                        self._enqueue("bind", pod)
                    elif not pod.pretends or not pod.mounted or pod.untold or pod.thing["metadata"].get("deletionTimestamp"):
                        self._enqueue("step", pod)

    def _enqueue(self, verb, pod):
        """Each thing to do waits once only."""
        with self.lock:
            if (verb, pod) not in self.waiting:
                self.waiting.add((verb, pod))
                self.due.put((verb, pod))

    def _step_loop(self):
        while True:
            task = self.due.get()
            if task is None:
                return
            verb, pod = task
            with self.lock:
                self.waiting.discard(task)
            try:
                self._do(verb, pod)
                pod.untold = False
            except UNREACHABLE:
                pod.untold = True
            except ApiError as error:
                pod.untold = error.status != 404
                if error.status not in (404, 409, 429) and error.status < 500:
                    self.failures.append(error)
            except Exception as error:  # a mistake of ours: close() tells it
                self.failures.append(error)

    def _do(self, verb, pod):
        if verb == "bind":
            self.api.call("POST", path_of("Pod", pod.namespace, pod.name, "binding"), {
                "apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod.name, "uid": pod.uid}, "target": {"kind": "Node", "name": "fake"}})
            return
        if self.paused.is_set() and verb != "forget":
            return
        if not pod.lock.acquire(blocking=verb != "step"):
            return
        try:
            if verb == "forget":
                pod.forget()
                return
            if verb == "refresh" and pod.mounted and not pod.pretends:
                pod.refresh()
            self._tell(pod, pod.pretend(self.pretence) if pod.pretends else pod.step())
        finally:
            pod.lock.release()

    def _tell(self, pod, status):
        """None: the pod has ended, and goes."""
        if pod.gone:
            return
        if status is None:
            self.api.call("DELETE", path_of("Pod", pod.namespace, pod.name), {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0,
                                                                               "preconditions": {"uid": pod.uid}})
        elif self.told.get(pod.uid) != status:
            self.api.merge("Pod", pod.namespace, pod.name, {"metadata": {"uid": pod.uid}, "status": status}, subresource="status")
            self.told[pod.uid] = status
