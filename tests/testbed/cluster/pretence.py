"""What pods say that do not run: the last words of a topics Job, and GET /v1/tasks of a sidecar on the pod's address. One thread answers for all."""

import contextlib
import json
import selectors
import socket
import threading

PORT = 7979
ORDERS = "millstream.dev/orders"
MOST_REQUEST = 65536  # bytes; more is no request of ours
VERDICT = {"ok": True, "reason": "TopicsReady", "message": "4 topics, 0 created", "retry": False, "tasks": 4, "created": [], "warnings": []}


class Pretence:
    """`verdicts` and `reports` may be changed by tests: {"namespace/name of the processor": changes over what is said else}; a report of None: no answer.

    tasks   of every processor
    """

    def __init__(self, tasks=4):
        self.tasks, self.verdicts, self.reports = tasks, {}, {}
        self.pods = {}  # listening socket -> Pod
        self.selector = selectors.DefaultSelector()
        self.wake_read, self.wake_write = socket.socketpair()
        self.selector.register(self.wake_read, selectors.EVENT_READ, self._woken)
        self.lock = threading.Lock()
        self.orders, self.ended = [], False
        self.thread = threading.Thread(target=self._run, daemon=True, name="pretence")
        self.thread.start()

    def close(self):
        self._tell(None, None)
        self.thread.join()

    # ---------------------------------------------------------------- what the kubelet asks

    def verdict(self, pod):
        """Whether a Job's pod ends well, and its last words."""
        verdict = {**VERDICT, "tasks": self.tasks, **self.verdicts.get(key_of(pod), {})}
        return verdict["ok"], json.dumps(verdict)

    def begin(self, pod):
        """Answers on the pod's address from now on."""
        self._tell("add", pod)

    def end(self, pod):
        self._tell("remove", pod)

    def report(self, pod):
        """The body of /v1/tasks: the tasks shared out among the pods that are not told to drain, all of them active."""
        changes = self.reports.get(key_of(pod), {})
        if changes is None:
            return None
        orders = json.loads(pod.thing["metadata"].get("annotations", {}).get(ORDERS) or "{}")
        members = sorted(each.name for each in list(self.pods.values()) if key_of(each) == key_of(pod) and not drains(each))
        mine = [task for task in range(self.tasks) if pod.name in members and task % len(members) == members.index(pod.name)]
        tasks = [{"task": task, "state": "active", "records": 0, "inputs": [{"lag": 0}], "restore": {"bytesLeft": 0, "etaSeconds": 0}} for task in mine]
        return {"processor": key_of(pod), "member": pod.name, "version": "0.1.0", "guarantee": "ExactlyOnce", "state": orders.get("state", "Running"),
                "drain": "Drained" if orders.get("drain") else "No", "inGroup": True, "ready": True, "workers": 1,
                "summary": {"total": self.tasks, "active": len(mine), "restoring": 0, "standby": 0, "stopped": 0}, "lag": {"records": 0, "seconds": 0},
                "restore": {"bytesLeft": 0, "etaSeconds": 0}, "firstError": None, "orders": orders or None, "tasks": tasks, "conditions": [], **changes}

    # ---------------------------------------------------------------- its thread

    def _tell(self, verb, pod):
        with self.lock:
            self.orders.append((verb, pod))
        self.wake_write.send(b".")

    def _run(self):
        while not self.ended:
            for key, _ in self.selector.select():
                with contextlib.suppress(OSError):
                    key.data(key.fileobj)
        for key in list(self.selector.get_map().values()):
            key.fileobj.close()
        self.wake_write.close()
        self.selector.close()

    def _woken(self, wake):
        wake.recv(4096)
        with self.lock:
            orders, self.orders = self.orders, []
        for verb, pod in orders:
            if verb is None:
                self.ended = True
            elif verb == "add":
                listener = socket.create_server((pod.ip, PORT))
                self.pods = {**self.pods, listener: pod}
                self.selector.register(listener, selectors.EVENT_READ, self._accept)
            else:
                for listener in [each for each, about in self.pods.items() if about is pod]:
                    self.selector.unregister(listener)
                    listener.close()
                    self.pods = {each: about for each, about in self.pods.items() if each is not listener}

    def _accept(self, listener):
        connection, _ = listener.accept()
        pod, data = self.pods[listener], bytearray()
        self.selector.register(connection, selectors.EVENT_READ, lambda each: self._read(each, pod, data))

    def _read(self, connection, pod, data):
        piece = connection.recv(65536)
        data += piece
        if not piece or len(data) > MOST_REQUEST:
            self._drop(connection)
        elif b"\r\n\r\n" in data:
            report = self.report(pod)
            if report is not None:
                body = json.dumps(report).encode()
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
            self._drop(connection)

    def _drop(self, connection):
        self.selector.unregister(connection)
        connection.close()


def key_of(pod):
    """"namespace/name" of the processor a pod belongs to."""
    return f"{pod.namespace}/{pod.thing['metadata'].get('labels', {}).get('app.kubernetes.io/instance', pod.name)}"


def drains(pod):
    return json.loads(pod.thing["metadata"].get("annotations", {}).get(ORDERS) or "{}").get("drain", False)
