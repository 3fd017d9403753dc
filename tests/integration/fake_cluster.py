"""Plays the API server of a cluster for `kubectl millstream`: objects in memory, sidecars behind pods/proxy, Jobs that end at once with a log.

(A real API server refuses to proxy to loopback addresses; what of the plugin needs none is tested against one in tests/operator.)
"""

import http.server
import json
import threading
import urllib.parse

SINGULAR = {"streamprocessors": "StreamProcessor", "pods": "Pod", "statefulsets": "StatefulSet", "jobs": "Job",
            "persistentvolumeclaims": "PersistentVolumeClaim", "events": "Event"}


def merged(old, patch):
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    result = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


class FakeCluster:
    def __init__(self):
        self.objects = {}   # (plural, namespace, name) -> object
        self.sidecars = {}  # (namespace, pod) -> {path: (status, body)}; a pod without an entry cannot be reached
        self.logs = {}      # (namespace, pod, container) -> text
        self.job = lambda command: (0, "")  # of the container's command: exit code and log
        self.denied = set()  # (verb, plural, subresource)
        self.requests = []  # "METHOD path"
        handler = type("Handler", (Handler,), {"cluster": self})
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def kubeconfig(self, path, namespace="shop"):
        path.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", "current-context": "here",
                                    "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{self.server.server_port}"}}],
                                    "users": [{"name": "u", "user": {"token": "hunter2"}}],
                                    "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": namespace}}]}))
        return path

    def add(self, plural, thing):
        self.objects[plural, thing["metadata"]["namespace"], thing["metadata"]["name"]] = {"kind": SINGULAR[plural], **thing}

    def made(self, plural):
        return [thing for (of, _, _), thing in self.objects.items() if of == plural]

    def run_job(self, job):
        name, namespace = job["metadata"]["name"], job["metadata"]["namespace"]
        container = job["spec"]["template"]["spec"]["containers"][0]
        code, log = self.job(container["command"])
        self.add("pods", {"metadata": {"name": f"{name}-x", "namespace": namespace, "labels": {"job-name": name}},
                          "status": {"phase": "Succeeded" if code == 0 else "Failed",
                                     "containerStatuses": [{"name": container["name"], "state": {"terminated": {"exitCode": code}}}]}})
        self.logs[namespace, f"{name}-x", container["name"]] = log


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    cluster = None

    def log_message(self, *_):
        pass

    def answer(self, code, body, kind="application/json"):
        data = (body if isinstance(body, str) else json.dumps(body)).encode()
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def fail(self, code, reason, message):
        self.answer(code, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": message, "code": code})

    def handle_call(self):
        cluster = self.cluster
        url = urllib.parse.urlsplit(self.path)
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        cluster.requests.append(f"{self.command} {self.path}")
        parts = [urllib.parse.unquote(part) for part in url.path.strip("/").split("/")]
        parts = parts[2:] if parts[0] == "api" else parts[3:]
        namespace = None
        if parts[0] == "namespaces":
            namespace, parts = parts[1], parts[2:]
        plural, name, rest = parts[0], parts[1] if len(parts) > 1 else None, parts[2:]
        if (self.command, plural, rest[0] if rest else "") in cluster.denied:
            return self.fail(403, "Forbidden", f"{plural} is forbidden")
        if rest and rest[0] == "proxy":
            return self.proxy(namespace, name.split(":")[0], "/" + "/".join(rest[1:]))
        query = dict(urllib.parse.parse_qsl(url.query))
        if rest and rest[0] == "log":
            log = cluster.logs.get((namespace, name, query.get("container")))
            return self.answer(200, log, "text/plain") if log is not None else self.fail(404, "NotFound", f"no log of {name}")
        if name is None and self.command == "GET":
            wanted = [pair.split("=") for pair in query.get("labelSelector", "").split(",") if pair]
            items = [thing for (of, where, _), thing in sorted(cluster.objects.items())
                     if of == plural and namespace in (None, where)
                     and all(thing["metadata"].get("labels", {}).get(key) == value for key, value in wanted)]
            return self.answer(200, {"kind": "List", "metadata": {"resourceVersion": "7"}, "items": items})
        if self.command == "POST":
            cluster.add(plural, body)
            if plural == "jobs":
                cluster.run_job(body)
            return self.answer(201, body)
        thing = cluster.objects.get((plural, namespace, name))
        if thing is None:
            return self.fail(404, "NotFound", f'{plural} "{name}" not found')
        if self.command == "PATCH":
            assert "merge-patch" in self.headers["Content-Type"], self.headers["Content-Type"]
            thing = cluster.objects[plural, namespace, name] = merged(thing, body)
        if self.command == "DELETE":
            del cluster.objects[plural, namespace, name]
        return self.answer(200, thing)

    def proxy(self, namespace, pod, path):
        answers = self.cluster.sidecars.get((namespace, pod))
        if answers is None:
            return self.fail(503, "ServiceUnavailable", "error trying to reach service: dial tcp: connection refused")
        status, body = answers.get(path, (404, {"error": {"code": "NOT_FOUND", "message": f"there is no {path}"}}))
        return self.answer(status, body)

    do_GET = do_POST = do_PATCH = do_DELETE = handle_call
