"""One pod on the fake node: a state machine that is stepped. step() looks at what the API server wants and at what runs, does the next thing, and
returns the status to be told. The order is the kubelet's: volumes, init containers one after the other (sidecars stay, and must have started),
the others, probes, restarts; at the end preStop, SIGTERM, the sidecars last, SIGKILL when the grace is over."""

import contextlib
import shutil
import threading
import time

import volumes
from container import Container, stamp

NOWHERE = "nowhere/"  # images of this name cannot be pulled, also where nothing is run


class Pod:
    """Owned by the kubelet; stepped by one thread at a time."""

    def __init__(self, kubelet, thing, ip):
        self.kubelet, self.thing, self.ip = kubelet, thing, ip
        self.namespace, self.name, self.uid = (thing["metadata"][key] for key in ("namespace", "name", "uid"))
        self.spec = thing["spec"]
        self.folder = kubelet.folder / "p" / self.uid[:13]
        self.folder.mkdir(parents=True, exist_ok=True)
        inits = [Container(self, spec, "sidecar" if spec.get("restartPolicy") == "Always" else "init") for spec in self.spec.get("initContainers", [])]
        self.inits, self.mains = inits, [Container(self, spec, "main") for spec in self.spec["containers"]]
        self.started_at = stamp(time.time())
        self.mounted, self.next_mount = False, 0.0
        self.token = None  # of its service account, once it is asked for
        self.phase = "Pending"
        images = [each.spec["image"] for each in [*self.inits, *self.mains]]
        self.pretends = kubelet.pretence is not None and not any(each in kubelet.images for each in images)
        self.conditions = {}
        self.stopping = None  # monotonic time of the end of the grace
        self.stops = []  # threads of preStop
        self.gone = False
        self.untold = False  # its status could not be written: once more
        self.lock = threading.Lock()

    # ---------------------------------------------------------------- one step

    def step(self):
        """The status after the next thing is done; None once nothing runs any more and the pod may go."""
        if self.thing["metadata"].get("deletionTimestamp") or self.gone:
            if self._stop():
                return None
        elif self.phase in ("Pending", "Running"):
            self._advance()
        return self.status()

    def pretend(self, pretence):
        """The same without running anything: all containers are ready at once, those of a Job end."""
        if self.thing["metadata"].get("deletionTimestamp"):
            pretence.end(self)
            return None
        if self.phase in ("Succeeded", "Failed"):
            return self.status()
        try:
            for volume in self.spec.get("volumes", []):
                volumes.content(volume, self.thing, self._look_up)
        except volumes.NotYet as error:
            self.kubelet.event(self.thing, error.reason, f"MountVolume.SetUp failed for volume: {error}")
            return self.status()
        job = self.spec.get("restartPolicy") == "Never"
        if not job and not self.mounted:
            pretence.begin(self)
        ok, words = pretence.verdict(self) if job else (True, None)
        self.mounted, self.phase = True, "Running" if not job else "Succeeded" if ok else "Failed"
        for container in [*self.inits, *self.mains]:
            if container.spec["image"].startswith(NOWHERE):
                container.start()
            else:
                container.pretend(words, 0 if ok else 1)
        return self.status()

    def _advance(self):
        if not self._mount():
            return
        for container in self.inits:
            if not self._advance_init(container):
                return
        self.phase = "Running"
        for container in self.mains:
            self._keep_running(container, self.spec.get("restartPolicy", "Always"))
        if all(each.ended is not None and each.process is None and each.waiting is None for each in self.mains):
            self._finish()

    def _advance_init(self, container):
        """True when what follows may start."""
        if container.kind == "sidecar":
            self._keep_running(container, "Always")
            return container.started or container.restarts > 0
        if not container.done:
            self._keep_running(container, "OnFailure" if self.spec.get("restartPolicy", "Always") != "Never" else "Never")
        return container.done

    def _keep_running(self, container, policy):
        container.look()
        if container.running:
            return
        if container.ended is None:
            if time.monotonic() >= container.next_start and not container.start():
                container.next_start = time.monotonic() + 1
        elif policy == "Always" or (policy == "OnFailure" and container.ended["exitCode"] != 0):
            container.restart()

    def _finish(self):
        for container in self.inits:
            container.terminate()
        self.phase = "Succeeded" if all(each.done for each in self.mains) else "Failed"
        for container in self.inits:
            while container.running and not container.look():
                time.sleep(0.02)

    # ---------------------------------------------------------------- volumes

    def volume(self, name):
        """The folder of a volume."""
        claim = next((each["persistentVolumeClaim"]["claimName"] for each in self.spec.get("volumes", [])
                      if each["name"] == name and "persistentVolumeClaim" in each), None)
        return self.kubelet.claim_folder(self.namespace, claim) if claim else self.folder / "v" / name

    def _mount(self):
        if self.mounted or time.monotonic() < self.next_mount:
            return self.mounted
        self.next_mount = time.monotonic() + 1
        try:
            for volume in self.spec.get("volumes", []):
                if "persistentVolumeClaim" in volume and not self.kubelet.claim_bound(self.namespace, volume["persistentVolumeClaim"]["claimName"]):
                    return False
            self.refresh(strict=True)
        except volumes.NotYet as error:
            self.kubelet.event(self.thing, error.reason, f'MountVolume.SetUp failed for volume: {error}')
            return False
        self.mounted = True
        return True

    def _look_up(self, kind, name):
        if kind != "Token":
            return self.kubelet.look_up(kind, self.namespace, name)
        self.token = self.token or self.kubelet.cluster.token(self.namespace, name)
        return self.token

    def refresh(self, strict=False):
        """Writes volumes whose source changed. A source that is gone leaves what was there."""
        for volume in self.spec.get("volumes", []):
            with contextlib.nullcontext() if strict else contextlib.suppress(volumes.NotYet):
                files = volumes.content(volume, self.thing, self._look_up)
                if files is None:
                    self.volume(volume["name"]).mkdir(parents=True, exist_ok=True)
                else:
                    volumes.write(self.volume(volume["name"]), files)

    # ---------------------------------------------------------------- its end

    def _stop(self):
        """True when nothing runs any more. preStop of all containers and SIGTERM of the others first, of the sidecars after they ended."""
        everyone = [*self.inits, *self.mains]
        if self.stopping is None:
            grace = self.thing["metadata"].get("deletionGracePeriodSeconds")
            grace = self.spec.get("terminationGracePeriodSeconds", 30) if grace is None else grace
            self.stopping = time.monotonic() + grace
            self.stops = [threading.Thread(target=self._pre_stop, args=(each,), daemon=True) for each in everyone if each.running]
            for thread in self.stops:
                thread.start()
        for container in everyone:
            container.look()
            if time.monotonic() >= self.stopping or self.gone:
                container.kill()
        return not any(each.running for each in everyone)

    def _pre_stop(self, container):
        command = container.spec.get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command")
        if command:
            container.execute(command, max(self.stopping - time.monotonic(), 0.1))
        # Sidecars end behind the containers they serve, in the reverse order of their start.
        before = self.mains + self.inits[self.inits.index(container) + 1:] if container in self.inits else []
        while any(each.running for each in before) and time.monotonic() < self.stopping:
            time.sleep(0.02)
        container.terminate()

    def forget(self):
        """It is gone from the API server: so is everything of it here."""
        self.gone = True
        if self.pretends:
            self.kubelet.pretence.end(self)
        for container in [*self.inits, *self.mains]:
            container.kill()
            while container.running and not container.look():
                time.sleep(0.02)
        shutil.rmtree(self.folder, ignore_errors=True)

    # ---------------------------------------------------------------- what is told

    def _condition(self, kind, value, reason="", message=""):
        before = self.conditions.get(kind)
        if before is None or before["status"] != value:
            before = {"type": kind, "lastTransitionTime": stamp(time.time())}
        told = {**before, "status": value, "lastProbeTime": None}
        told.pop("reason", None), told.pop("message", None)
        self.conditions[kind] = {**told, **({"reason": reason} if reason else {}), **({"message": message} if message else {})}

    def status(self):
        ended = self.phase in ("Succeeded", "Failed")
        initialized = all(each.done if each.kind == "init" else each.started for each in self.inits) or ended
        unready = [each.name for each in [*self.inits, *self.mains] if each.kind != "init" and not each.ready]
        why = ("PodCompleted", "") if ended else ("ContainersNotReady", f"containers with unready status: [{' '.join(unready)}]")
        self._condition("PodScheduled", "True")
        self._condition("PodReadyToStartContainers", "True" if self.mounted else "False")
        self._condition("Initialized", "True" if initialized else "False")
        ready = not unready and not ended
        for kind in ("ContainersReady", "Ready"):
            self._condition(kind, "True" if ready else "False", *(() if ready else why))
        return {"phase": self.phase, "startTime": self.started_at, "podIP": self.ip, "podIPs": [{"ip": self.ip}], "hostIP": "127.0.0.1",
                "conditions": list(self.conditions.values()), "initContainerStatuses": [each.status() for each in self.inits],
                "containerStatuses": [each.status() for each in self.mains]}
