"""One container of a pod as a process: its environment, command, probes, restarts, last words. Paths of its volumes are replaced by the folders they
are on, in arguments and environment; nothing else is isolated."""

import contextlib
import http.client
import os
import re
import shutil
import signal
import socket
import subprocess
import time

import volumes

MOST_WORDS = 2048  # bytes of a log that become a termination message
FIRST_BACKOFF, MOST_BACKOFF = 0.5, 10.0  # seconds between restarts; a real kubelet's are 10 and 300


class Probe:
    """Runs one probe when it is due; `good` and `bad` count results in a row."""

    def __init__(self, container, kind, spec):
        self.container, self.kind, self.spec = container, kind, spec
        self.good = self.bad = 0
        self.due = time.monotonic() + spec.get("initialDelaySeconds", 0)

    def run(self):
        """None: not due; else whether it passed."""
        if time.monotonic() < self.due:
            return None
        passed = self._ask()
        hurry = 1.0 if self.kind == "liveness" else self.container.pod.kubelet.hurry
        self.due = time.monotonic() + self.spec.get("periodSeconds", 10) * hurry
        self.good, self.bad = (self.good + 1, 0) if passed else (0, self.bad + 1)
        return passed

    def _ask(self):
        # A busy machine is no reason to kill what is tested.
        timeout = 60 if self.kind == "liveness" else max(self.spec.get("timeoutSeconds", 1), 5)
        if "exec" in self.spec:
            return self.container.execute(self.spec["exec"]["command"], timeout) == 0
        about = self.spec.get("httpGet") or self.spec["tcpSocket"]
        address = (about.get("host") or self.container.pod.ip, self.container.port(about["port"]))
        with contextlib.suppress(OSError, http.client.HTTPException):
            if "tcpSocket" in self.spec:
                socket.create_connection(address, timeout).close()
                return True
            connection = http.client.HTTPConnection(*address, timeout=timeout)
            with contextlib.closing(connection):
                connection.request("GET", about.get("path", "/"))
                return connection.getresponse().status < 400
        return False

    @property
    def failed(self):
        return self.bad >= self.spec.get("failureThreshold", 3)


class Container:
    """`kind` is init, sidecar (an init container that stays) or main. States: waiting (reason, message), running, ended."""

    def __init__(self, pod, spec, kind):
        self.pod, self.spec, self.kind, self.name = pod, spec, kind, spec["name"]
        self.folder = pod.folder / self.name
        self.process = None
        self.waiting = ("PodInitializing" if pod.spec.get("initContainers") else "ContainerCreating", "")
        self.ended = self.last = None  # terminated states
        self.restarts = 0
        self.started = self.ready = False
        self.pretended = False  # said to run, though nothing does
        self.started_at = self.next_start = 0.0
        self.probes = {}

    # ---------------------------------------------------------------- what it runs

    def image(self):
        return self.pod.kubelet.images.get(self.spec["image"])

    def variables(self):
        found = {}
        for entry in self.spec.get("envFrom", []):
            kind, about = ("Secret", entry["secretRef"]) if "secretRef" in entry else ("ConfigMap", entry["configMapRef"])
            thing = self._look_up(kind, about)
            found |= {entry.get("prefix", "") + key: value.decode() for key, value in (volumes.data_of({**thing, "kind": kind}) if thing else {}).items()}
        for entry in self.spec.get("env", []):
            value = self._value(entry)
            if value is not None:
                found[entry["name"]] = expand(value, found)
        return found

    def _value(self, entry):
        if "valueFrom" not in entry:
            return entry.get("value", "")
        source = entry["valueFrom"]
        if "fieldRef" in source:
            return self.pod.ip if source["fieldRef"]["fieldPath"] == "status.podIP" else volumes.field(self.pod.thing, source["fieldRef"]["fieldPath"])
        kind, about = ("Secret", source["secretKeyRef"]) if "secretKeyRef" in source else ("ConfigMap", source["configMapKeyRef"])
        thing = self._look_up(kind, about)
        data = volumes.data_of({**thing, "kind": kind}) if thing else {}
        if about["key"] not in data:
            if about.get("optional"):
                return None
            raise volumes.NotYet("CreateContainerConfigError", f"couldn't find key {about['key']} in {kind} {self.pod.namespace}/{about['name']}")
        return data[about["key"]].decode()

    def _look_up(self, kind, about):
        thing = self.pod.kubelet.look_up(kind, self.pod.namespace, about["name"])
        if thing is None and not about.get("optional"):
            raise volumes.NotYet("CreateContainerConfigError", f'{kind.lower()} "{about["name"]}" not found')
        return thing

    def on_host(self, text):
        """With the paths of mounts replaced. /tmp stays: it is the same inside and outside."""
        for mount in sorted(self.spec.get("volumeMounts", []), key=lambda each: -len(each["mountPath"])):
            place = mount["mountPath"].rstrip("/")
            if place != "/tmp":
                text = re.sub(rf"(?<![\w/.-]){re.escape(place)}(?=/|$|[:,; ])", str(self.pod.volume(mount["name"]) / mount.get("subPath", "")), text)
        return text

    def environment(self):
        variables = {key: self.on_host(value) for key, value in self.variables().items()}
        return {"PATH": os.environ["PATH"], "HOSTNAME": self.pod.name, "TMPDIR": str(self.folder), **self.pod.kubelet.environment, **variables}

    def command(self, variables):
        entry, hook = self.image()
        command = self.spec.get("command") or entry
        arguments = self.spec.get("args") or []
        return hook(self, [self.on_host(expand(part, variables)) for part in [*command, *arguments]])

    def port(self, port):
        if isinstance(port, int):
            return port
        return next(each["containerPort"] for each in self.spec.get("ports", []) if each.get("name") == port)

    # ---------------------------------------------------------------- its life

    @property
    def running(self):
        return self.process is not None

    @property
    def termination(self):
        return self.folder / "termination-log"

    @property
    def log_file(self):
        return self.folder / "log"

    def log(self):
        return self.log_file.read_text(encoding="utf-8", errors="replace") if self.log_file.exists() else ""

    def start(self):
        """Starts it, or says what it waits for."""
        if self.image() is None:
            self.waiting = ("ErrImagePull" if self.restarts == 0 and self.waiting[0] != "ErrImagePull" else "ImagePullBackOff",
                            f'failed to pull and unpack image "{self.spec["image"]}": not found')
            return False
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            variables = self.variables()
            command = self.command(variables)
            environment = self.environment()
        except volumes.NotYet as error:
            self.waiting = (error.reason, str(error))
            return False
        self.termination.write_bytes(b"")
        program = shutil.which(command[0], path=environment["PATH"])
        if program is None:
            self.waiting = ("RunContainerError", f'exec: "{command[0]}": executable file not found in $PATH')
            return False
        with open(self.log_file, "wb" if self.restarts == 0 else "ab") as log:
            self.process = subprocess.Popen([program, *command[1:]], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, cwd=self.folder,
                                            start_new_session=True)
        self.pod.kubelet.watchdog.tell("add", self.process.pid)
        self.waiting, self.ended = None, None
        self.started_at = time.time()
        probes = {name: self.spec.get(f"{name}Probe") for name in ("startup", "readiness", "liveness")}
        self.probes = {name: Probe(self, name, spec) for name, spec in probes.items() if spec}
        self.started, self.ready = "startup" not in self.probes, False
        return True

    def look(self):
        """Notices its end and runs its probes; true when it ended."""
        if self.process is None:
            return False
        if self.process.poll() is not None:
            self._ended()
            return True
        if not self.started and self.probes["startup"].run():
            self.started = True
        if not self.started:
            if self.probes["startup"].failed:
                self.kill()
            return False
        readiness = self.probes.get("readiness")
        if readiness is None:
            self.ready = True
        elif readiness.run() is not None:
            self.ready = readiness.good >= readiness.spec.get("successThreshold", 1) or (self.ready and not readiness.failed)
        liveness = self.probes.get("liveness")
        if liveness and liveness.run() is False and liveness.failed:
            self.kill()
        return False

    def _ended(self):
        code = self.process.returncode
        kill_group(self.process.pid)  # what it left behind goes with it, as with a container
        self.pod.kubelet.watchdog.tell("end", self.process.pid)
        self.process, self.started, self.ready = None, False, False
        words = self.termination.read_text(encoding="utf-8", errors="replace") if self.termination.exists() else ""
        if not words and code != 0 and self.spec.get("terminationMessagePolicy") == "FallbackToLogsOnError":
            words = self.log()[-MOST_WORDS:]
        self.ended = {"exitCode": code if code >= 0 else 128 - code, "reason": "Completed" if code == 0 else "Error", "message": words[-4096:],
                      "startedAt": stamp(self.started_at), "finishedAt": stamp(time.time())}
        self.next_start = time.monotonic() + min(FIRST_BACKOFF * 2 ** min(self.restarts, 10), MOST_BACKOFF)

    def restart(self):
        """After it ended, once its time has come."""
        if time.monotonic() < self.next_start:
            self.waiting = ("CrashLoopBackOff", f"back-off restarting failed container {self.name}")
            return
        self.last, before = self.ended or self.last, self.restarts
        self.restarts += 1
        if not self.start():
            self.restarts = before
            self.next_start = time.monotonic() + 1

    def execute(self, command, timeout):
        """Runs a command beside it, as exec does; its exit code, or None when it did not end in time."""
        variables = self.variables()
        arguments = self.image()[1](self, [self.on_host(expand(part, variables)) for part in command])
        try:
            with open(self.folder / "exec.log", "ab") as log:
                return subprocess.run(arguments, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.environment(), cwd=self.folder, timeout=timeout,
                                      check=False, start_new_session=True).returncode
        except (subprocess.TimeoutExpired, OSError):
            return None

    def terminate(self):
        """SIGTERM to the program itself, as to the first process of a container."""
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)

    def kill(self):
        """SIGKILL to all of its processes; look() then finds it ended."""
        if self.process is not None:
            kill_group(self.process.pid)

    # ---------------------------------------------------------------- how it is told

    def status(self):
        if self.running or self.pretended:
            state = {"running": {"startedAt": stamp(self.started_at)}}
        elif self.waiting is not None:
            state = {"waiting": {"reason": self.waiting[0], **({"message": self.waiting[1]} if self.waiting[1] else {})}}
        else:
            state = {"terminated": self.ended}
        last = self.ended if self.waiting is not None and self.ended else self.last
        return {"name": self.name, "image": self.spec["image"], "imageID": "", "restartCount": self.restarts, "started": self.started,
                "ready": self.ready or (self.kind == "init" and self.done), "state": state, "lastState": {"terminated": last} if last else {}}

    def pretend(self, ended=None, code=0):
        """It runs and is ready, or ended with these last words."""
        self.waiting, self.started_at = None, self.started_at or time.time()
        self.pretended = self.started = self.ready = ended is None
        if ended is not None:
            now = stamp(time.time())
            self.ended = self.ended or {"exitCode": code, "reason": "Error" if code else "Completed", "message": ended, "startedAt": stamp(self.started_at), "finishedAt": now}

    @property
    def done(self):
        return self.process is None and self.ended is not None and self.ended["exitCode"] == 0


def expand(text, variables):
    return re.sub(r"\$\(([A-Za-z_]\w*)\)", lambda found: variables.get(found[1], found[0]), text)


def kill_group(leader):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def stamp(seconds):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def program(*command, hook=lambda _, arguments: arguments):
    """An image: what runs in it, and hook(container, argv) -> argv, where a path of the image's own has to be told."""
    return list(command), hook


