"""A real Kubernetes control plane on loopback for tests and `./dev cluster`: etcd, API server with RBAC, controllers, scheduler; up in seconds,
removed without a trace. There is no node: pods stay unscheduled unless a test makes nodes and plays kubelet.

    with ControlPlane(folder) as cluster:
        cluster.admin.list("Pod")                  # api.Api as system:masters
        cluster.kubectl("get", "ns")               # the real kubectl; prints what it printed
        cluster.account("shop", "reader")          # an Api with a service account's token: RBAC holds for it

Many may run at once: every one has ports and a folder of its own. Not thread-safe; the Api objects are.
"""

import contextlib
import ipaddress
import json
import os
import pathlib
import shutil
import signal
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "kafka")]
import pki  # noqa: E402
import programs  # noqa: E402
from api import Api, ApiError  # noqa: E402
from brokers import HOST, Watchdog, free_ports  # noqa: E402

DEADLINE = 300.0  # seconds until it must be up; generous: it only bounds a failing start
STARTS = 3  # with new ports each: another process may take one between their choice and their use
SERVICES = "10.96.0.0/16"
DOMAIN = "cluster.local"
# Who asked what, and how it ended: no bodies. Reads of the system itself are left out.
AUDIT_POLICY = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived", "ResponseStarted"],
                "rules": [{"level": "None", "userGroups": ["system:masters", "system:nodes"]},
                          {"level": "None", "users": ["system:apiserver", "system:kube-controller-manager", "system:kube-scheduler"]},
                          {"level": "None", "userGroups": ["system:serviceaccounts:kube-system"]}, {"level": "Metadata"}]}


class ClusterFailed(Exception):
    """A program of the cluster ended by itself or did not start; the message ends with its log."""


class Process:
    """One program of the cluster, with its log; started again on the same state."""

    def __init__(self, name, folder, watchdog, command):
        self.name, self.command, self.watchdog = name, [str(part) for part in command], watchdog
        self.log_file = pathlib.Path(folder) / f"{name}.log"
        self.process = None

    def start(self):
        assert self.process is None
        with open(self.log_file, "ab") as log:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd=self.log_file.parent)
        self.watchdog.tell("add", self.process.pid)

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def log(self):
        return self.log_file.read_text(encoding="utf-8", errors="replace")

    def kill(self, number=signal.SIGKILL):
        if self.process:
            self.process.send_signal(number)
            self.process.wait()
            self.watchdog.tell("end", self.process.pid)
            self.process = None

    def memory(self):
        """Resident bytes."""
        return int(pathlib.Path(f"/proc/{self.process.pid}/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


class ControlPlane:
    """close() (or the end of `with`, or of this process) ends and removes everything.

    scheduler   also kube-scheduler
    audit       the API server writes who asked what (requests())
    api_flags, controller_flags    more flags for kube-apiserver and kube-controller-manager
    """

    def __init__(self, folder, *, scheduler=False, audit=False, api_flags=(), controller_flags=()):
        self.folder = pathlib.Path(folder)
        self.bin = programs.home()
        self.with_scheduler, self.with_audit = scheduler, audit
        self.api_flags, self.controller_flags = list(api_flags), list(controller_flags)
        self.host, self.services = HOST, SERVICES  # where the API server listens, and the range it takes addresses of services from
        self.processes = {}
        self.watchdog = self.authority = self.admin = self.url = None

    # ---------------------------------------------------------------- life

    def start(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        self.watchdog = Watchdog(self.folder)
        try:
            self.authority = pki.Authority(self.folder / "pki")
            for attempt in range(1, STARTS + 1):
                try:
                    self._start()
                    break
                except ClusterFailed as error:
                    self._end()
                    if attempt == STARTS or "address already in use" not in str(error):
                        raise
        except BaseException:
            self.close()
            raise
        return self

    __enter__ = start

    def __exit__(self, *_):
        self.close()

    def close(self):
        self._end()
        if self.watchdog:
            self.watchdog.close()
            self.watchdog = None
        shutil.rmtree(self.folder, ignore_errors=True)

    def _end(self):
        for process in reversed(self.processes.values()):
            process.kill()
        self.processes = {}
        shutil.rmtree(self.folder / "etcd", ignore_errors=True)

    def _start(self):
        etcd, peer, port = free_ports(3)
        self.url = f"https://{self.host}:{port}"
        server = self.authority.issue("apiserver", "/CN=kube-apiserver", client=False, server=[
            f"IP:{self.host}", f"IP:{ipaddress.ip_network(self.services)[1]}", "DNS:localhost", "DNS:kubernetes", "DNS:kubernetes.default", "DNS:kubernetes.default.svc",
            f"DNS:kubernetes.default.svc.{DOMAIN}"])
        admin = self.authority.issue("admin", "/O=system:masters/CN=admin")
        self.admin = Api(port, self.authority.ca, certificate=admin, host=self.host)
        self.kubeconfig_of("admin", admin)
        self._run("etcd", "--name=e0", f"--data-dir={self.folder}/etcd", "--unsafe-no-fsync", "--log-level=warn",
                  f"--listen-client-urls=http://{HOST}:{etcd}", f"--advertise-client-urls=http://{HOST}:{etcd}",
                  f"--listen-peer-urls=http://{HOST}:{peer}", f"--initial-advertise-peer-urls=http://{HOST}:{peer}", f"--initial-cluster=e0=http://{HOST}:{peer}")
        self._run("kube-apiserver", f"--etcd-servers=http://{HOST}:{etcd}", f"--bind-address={self.host}", f"--advertise-address={self.host}", f"--secure-port={port}",
                  f"--tls-cert-file={server[0]}", f"--tls-private-key-file={server[1]}", f"--client-ca-file={self.authority.ca}",
                  "--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--allow-privileged=true",
                  f"--service-account-issuer=https://kubernetes.default.svc.{DOMAIN}", f"--service-account-signing-key-file={self.authority.service_accounts}",
                  f"--service-account-key-file={self.authority.service_accounts}", f"--service-cluster-ip-range={self.services}",
                  *self._node_flags(), *self._audit_flags(), *self.api_flags)
        self.wait(self.ready, "kube-apiserver to be ready")
        manager = self.kubeconfig_of("controller-manager", self.authority.issue("controller-manager", "/CN=system:kube-controller-manager"))
        self._run("kube-controller-manager", f"--kubeconfig={manager}", f"--service-account-private-key-file={self.authority.service_accounts}",
                  f"--root-ca-file={self.authority.ca}", "--use-service-account-credentials=true", f"--cluster-signing-cert-file={self.authority.ca}",
                  f"--cluster-signing-key-file={self.authority.folder}/ca.key", "--leader-elect=false", f"--bind-address={HOST}", "--secure-port=0",
                  "--kube-api-qps=500", "--kube-api-burst=1000", f"--flex-volume-plugin-dir={self.folder}/volume-plugins",
                  *self._patience_with_nodes(), *self.controller_flags)
        if self.with_scheduler:
            scheduler = self.kubeconfig_of("scheduler", self.authority.issue("scheduler", "/CN=system:kube-scheduler"))
            self._run("kube-scheduler", f"--kubeconfig={scheduler}", "--leader-elect=false", f"--bind-address={HOST}", "--secure-port=0",
                      "--kube-api-qps=500", "--kube-api-burst=1000")
        self.wait(lambda: self.admin.get("ServiceAccount", "default", "default"), "the controllers to make service accounts")

    def _run(self, name, *arguments):
        self.processes[name] = Process(name, self.folder, self.watchdog, [self.bin / name, *arguments])
        self.processes[name].start()

    def _node_flags(self):
        """Without a node nobody asks for the service `kubernetes`, and an address on loopback could not be its endpoint."""
        return ["--endpoint-reconciler-type=none"]

    def _patience_with_nodes(self):
        """Nodes that are none send no heartbeats; their pods would be not ready after 50 s."""
        return ["--node-monitor-grace-period=24h"]

    def _audit_flags(self):
        if not self.with_audit:
            return []
        policy = self.folder / "audit-policy.json"
        policy.write_text(json.dumps(AUDIT_POLICY), encoding="ascii")
        return [f"--audit-policy-file={policy}", f"--audit-log-path={self.folder}/audit.log", "--audit-log-mode=blocking"]

    def ready(self):
        tls = ssl.create_default_context(cafile=str(self.authority.ca))
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=10, context=tls) as answer:
                return answer.status == 200
        except (OSError, urllib.error.URLError):
            return False

    def wait(self, condition, what, deadline=None):
        """Until condition() is true; an error of the API counts as not yet."""
        deadline = deadline or DEADLINE
        end = time.monotonic() + deadline
        while True:
            looked = time.monotonic()
            with contextlib.suppress(OSError, ApiError):
                if condition():
                    return
            pause = min(max(0.05, 3 * (time.monotonic() - looked)), 5.0)  # who waits must not be what keeps the server busy
            for process in self.processes.values():
                if process.process is not None and not process.alive():
                    raise ClusterFailed(f"{process.name} ended with exit code {process.process.returncode}:\n{process.log()[-3000:]}")
            if time.monotonic() > end:
                logs = "".join(f"\n--- {each.name}\n{each.log()[-1500:]}" for each in self.processes.values())
                raise ClusterFailed(f"waited {deadline:.0f} s for {what}{logs}")
            time.sleep(pause)

    # ---------------------------------------------------------------- breaking it

    def stop_api(self):
        """The API server is gone, its state stays; start_api() brings it back on the same port."""
        self.processes["kube-apiserver"].kill()

    def start_api(self):
        self.processes["kube-apiserver"].start()
        self.wait(self.ready, "kube-apiserver to be back")

    # ---------------------------------------------------------------- ways in

    def kubeconfig_of(self, name, certificate):
        return pki.kubeconfig(self.folder / f"{name}.kubeconfig", self.url, self.authority.ca, certificate=certificate)

    @property
    def kubeconfig(self):
        """Of the administrator."""
        return self.folder / "admin.kubeconfig"

    def token(self, namespace, account, seconds=3600):
        """A token of that service account."""
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": seconds}}
        return self.admin.call("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token", request)["status"]["token"]

    def account(self, namespace, name):
        """An Api as that service account."""
        return Api(self.admin.port, self.authority.ca, token=self.token(namespace, name), host=self.host)

    def account_kubeconfig(self, namespace, name, path=None):
        """A kubeconfig file for that service account."""
        return pki.kubeconfig(path or self.folder / f"{namespace}.{name}.kubeconfig", self.url, self.authority.ca, token=self.token(namespace, name), namespace=namespace)

    def environment(self):
        return {"KUBECONFIG": str(self.kubeconfig), "KUBECACHEDIR": str(self.folder / "kubectl-cache"), "HELM_CACHE_HOME": str(self.folder / "helm"),
                "HELM_CONFIG_HOME": str(self.folder / "helm"), "HELM_DATA_HOME": str(self.folder / "helm"), "PATH": f"{self.bin}:{os.environ['PATH']}"}

    def run(self, program, *arguments, text=None, check=True, kubeconfig=None):
        """The real kubectl or helm; a subprocess.CompletedProcess with what it printed (stdout, stderr)."""
        environment = {**os.environ, **self.environment(), **({"KUBECONFIG": str(kubeconfig)} if kubeconfig else {})}
        done = subprocess.run([str(self.bin / program), *map(str, arguments)], input=text, capture_output=True, text=True, check=False, env=environment,
                              timeout=DEADLINE)
        if check and done.returncode != 0:
            raise ClusterFailed(f"{program} {' '.join(map(str, arguments))}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def kubectl(self, *arguments, **options):
        return self.run("kubectl", *arguments, **options).stdout

    def helm(self, *arguments, **options):
        return self.run("helm", *arguments, **options).stdout

    def namespace(self, name, labels=None):
        """A namespace in which pods can be made (its default service account exists)."""
        self.admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels or {}}})
        self.wait(lambda: self.admin.get("ServiceAccount", name, "default"), f"namespace {name}")
        return name

    def crd(self, path):
        """Applies a CustomResourceDefinition and waits until the server serves it."""
        self.kubectl("apply", "--server-side", "--validate=strict", "-f", path)
        name = self.kubectl("create", "--dry-run=client", "-o", "name", "-f", path).strip().split("/")[1]
        self.established(name)

    def established(self, crd):
        """Waits until the server serves this kind. (`kubectl wait` fails at once where the status has no conditions yet.)"""
        path = "jsonpath={.status.conditions[?(@.type=='Established')].status}"
        self.wait(lambda: self.kubectl("get", f"crd/{crd}", "--ignore-not-found", "-o", path).strip() == "True", f"{crd} is established")

    def requests(self, user=None):
        """What the audit log has: [{user, verb, resource, subresource, namespace, name, code, allowed, path}]; allowed: by access rules, admission may still
        refuse. `user`: only the ones whose user name ends so."""
        found = []
        for line in (self.folder / "audit.log").read_text(encoding="utf-8").splitlines():
            event = json.loads(line)
            about = event.get("objectRef", {})
            if user is None or event["user"]["username"].endswith(user):
                found.append({"user": event["user"]["username"], "verb": event["verb"], "resource": about.get("resource", ""), "subresource": about.get("subresource", ""),
                              "namespace": about.get("namespace", ""), "name": about.get("name", ""), "code": event.get("responseStatus", {}).get("code", 0),
                              "allowed": event.get("annotations", {}).get("authorization.k8s.io/decision") != "forbid", "path": event["requestURI"]})
        return found
