"""A small client of the Kubernetes API for tests: JSON over one connection per thread; only Python's standard library."""

import http.client
import json
import ssl
import threading
import urllib.parse

# kind -> (API group and version as in a path, plural, namespaced)
KINDS = {
    "Namespace": ("api/v1", "namespaces", False), "Node": ("api/v1", "nodes", False), "PersistentVolume": ("api/v1", "persistentvolumes", False),
    "EndpointSlice": ("apis/discovery.k8s.io/v1", "endpointslices", True),
    "Pod": ("api/v1", "pods", True), "Service": ("api/v1", "services", True), "ConfigMap": ("api/v1", "configmaps", True),
    "Secret": ("api/v1", "secrets", True), "ServiceAccount": ("api/v1", "serviceaccounts", True), "Event": ("api/v1", "events", True),
    "PersistentVolumeClaim": ("api/v1", "persistentvolumeclaims", True), "ResourceQuota": ("api/v1", "resourcequotas", True),
    "StatefulSet": ("apis/apps/v1", "statefulsets", True), "ControllerRevision": ("apis/apps/v1", "controllerrevisions", True),
    "Deployment": ("apis/apps/v1", "deployments", True), "Job": ("apis/batch/v1", "jobs", True),
    "PodDisruptionBudget": ("apis/policy/v1", "poddisruptionbudgets", True), "NetworkPolicy": ("apis/networking.k8s.io/v1", "networkpolicies", True),
    "HorizontalPodAutoscaler": ("apis/autoscaling/v2", "horizontalpodautoscalers", True),
    "Lease": ("apis/coordination.k8s.io/v1", "leases", True),
    "StorageClass": ("apis/storage.k8s.io/v1", "storageclasses", False),
    "Role": ("apis/rbac.authorization.k8s.io/v1", "roles", True), "RoleBinding": ("apis/rbac.authorization.k8s.io/v1", "rolebindings", True),
    "ClusterRole": ("apis/rbac.authorization.k8s.io/v1", "clusterroles", False),
    "ClusterRoleBinding": ("apis/rbac.authorization.k8s.io/v1", "clusterrolebindings", False),
    "CustomResourceDefinition": ("apis/apiextensions.k8s.io/v1", "customresourcedefinitions", False),
    "StreamProcessor": ("apis/millstream.dev/v1alpha1", "streamprocessors", True),
}

MERGE, APPLY = "application/merge-patch+json", "application/apply-patch+yaml"


class ApiError(Exception):
    """The server refused; `status` is the HTTP status, `body` its Status object."""

    def __init__(self, what, status, body):
        self.status, self.body = status, body if isinstance(body, dict) else {}
        super().__init__(f"{what}: {status} {self.body.get('message', body)}")


def path_of(kind, namespace=None, name=None, subresource=None):
    version, plural, namespaced = KINDS[kind]
    parts = [version, *(["namespaces", namespace] if namespaced and namespace else []), plural, *([name] if name else []), *([subresource] if subresource else [])]
    return "/" + "/".join(parts)


def path_to(thing, subresource=None):
    return path_of(thing["kind"], thing["metadata"].get("namespace", "default"), thing["metadata"]["name"], subresource)


class Api:
    """One user's way to one API server. Thread-safe: each thread has a connection of its own."""

    def __init__(self, port, ca, *, certificate=None, token=None, timeout=60.0, host="127.0.0.1"):
        self.host, self.port, self.token, self.timeout = host, port, token, timeout
        self.tls = ssl.create_default_context(cafile=str(ca))
        if certificate:
            self.tls.load_cert_chain(*map(str, certificate))
        self.local = threading.local()

    def _connect(self):
        return http.client.HTTPSConnection(self.host, self.port, timeout=self.timeout, context=self.tls)

    def _headers(self, content_type):
        return {"Content-Type": content_type, "Accept": "application/json", **({"Authorization": f"Bearer {self.token}"} if self.token else {})}

    def request(self, method, path, body=None, *, content_type="application/json", **query):
        """(status, answer): the answer parsed when it is JSON. A connection that went stale is opened anew once."""
        target = path + ("?" + urllib.parse.urlencode(query) if query else "")
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        for attempt in (1, 2):
            fresh = getattr(self.local, "connection", None) is None
            if fresh:
                self.local.connection = self._connect()
            try:
                self.local.connection.request(method, target, data, self._headers(content_type))
                answer = self.local.connection.getresponse()
                text = answer.read()
                break
            except (OSError, http.client.HTTPException):
                self.local.connection.close()
                self.local.connection = None
                if fresh or attempt == 2:
                    raise
        try:
            return answer.status, json.loads(text)
        except ValueError:
            return answer.status, text.decode(errors="replace")

    def call(self, method, path, body=None, **options):
        status, answer = self.request(method, path, body, **options)
        if status >= 400:
            raise ApiError(f"{method} {path}", status, answer)
        return answer

    # ---------------------------------------------------------------- objects

    def get(self, kind, namespace, name, subresource=None):
        """The object, or None where there is none."""
        status, answer = self.request("GET", path_of(kind, namespace, name, subresource))
        if status == 404:
            return None
        if status >= 400:
            raise ApiError(f"get {kind} {namespace}/{name}", status, answer)
        return answer

    def list(self, kind, namespace=None, **query):
        """Items; without a namespace those of all. query: labelSelector, fieldSelector."""
        return self.call("GET", path_of(kind, namespace), **query)["items"]

    def create(self, thing, **query):
        return self.call("POST", path_of(thing["kind"], thing["metadata"].get("namespace", "default")), thing, **query)

    def apply(self, thing, manager="test", force=True, subresource=None, **query):
        return self.call("PATCH", path_to(thing, subresource), thing, content_type=APPLY, fieldManager=manager, force=str(force).lower(), **query)

    def merge(self, kind, namespace, name, patch, subresource=None, **query):
        return self.call("PATCH", path_of(kind, namespace, name, subresource), patch, content_type=MERGE, **query)

    def replace(self, thing, subresource=None, **query):
        return self.call("PUT", path_to(thing, subresource), thing, **query)

    def delete(self, kind, namespace, name, *, grace=None, propagation=None):
        """True when there was one."""
        options = {"kind": "DeleteOptions", "apiVersion": "v1", **({"gracePeriodSeconds": grace} if grace is not None else {}),
                   **({"propagationPolicy": propagation} if propagation else {})}
        status, answer = self.request("DELETE", path_of(kind, namespace, name), options)
        if status >= 400 and status != 404:
            raise ApiError(f"delete {kind} {namespace}/{name}", status, answer)
        return status != 404

    def watch(self, kind, namespace=None, resource_version="0", seconds=300, **query):
        """(type, object) for each event until the server ends the watch; own connection. Version "0" starts with what there is."""
        connection = self._connect()
        try:
            query = {"watch": "1", "resourceVersion": resource_version, "timeoutSeconds": seconds, "allowWatchBookmarks": "true", **query}
            connection.request("GET", path_of(kind, namespace) + "?" + urllib.parse.urlencode(query), headers=self._headers("application/json"))
            answer = connection.getresponse()
            if answer.status >= 400:
                raise ApiError(f"watch {kind}", answer.status, json.loads(answer.read()))
            for line in answer:
                event = json.loads(line)
                if event["type"] == "ERROR":
                    raise ApiError(f"watch {kind}", event["object"].get("code", 0), event["object"])
                yield event["type"], event["object"]
        finally:
            connection.close()
