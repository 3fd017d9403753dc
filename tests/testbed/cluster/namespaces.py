"""The room a node lives in: namespaces (mount, processes, network, names) held by one process, a pair of interfaces between them and this machine, a
control group. Whatever ends the process that made it, all of it goes: a helper process undoes it step by step.

Needs root. Leaves this machine's firewall, settings and folders as they are; there is no default route inside, so nothing in it reaches further than
this machine.
"""

import contextlib
import dataclasses
import ipaddress
import os
import pathlib
import random
import shlex
import shutil
import subprocess
import time

GROUPS = pathlib.Path("/sys/fs/cgroup")
MOST = 200  # rooms at a time on one machine
# kubelet sets these for the whole machine: inside, files stand in for them.
SETTINGS = {"vm/overcommit_memory": 1, "vm/panic_on_oom": 0, "kernel/panic": 10, "kernel/panic_on_oops": 1, "kernel/keys/root_maxkeys": 1000000,
            "kernel/keys/root_maxbytes": 25000000}
# Reaps what is left to it, as the first process of a namespace has to.
INIT = "trap : TERM; while :; do sleep 86400 & wait $!; done"
HIDDEN = ("/run", "/var/lib", "/var/log")  # have other content inside


class NoRoom(Exception):
    """Namespaces could not be made; the message says what this machine lacks."""


@dataclasses.dataclass(frozen=True)
class Network:
    """The addresses of room `number`; rooms have different ones, so that several fit on a machine."""

    number: int

    @property
    def name(self):
        """Of the interface on this machine and of the control group."""
        return f"millstream{self.number}"

    @property
    def link(self):
        return ipaddress.ip_network(f"10.200.{self.number}.0/30")

    @property
    def host(self):
        """This machine, seen from inside: a broker for pods listens there."""
        return str(self.link[1])

    @property
    def node(self):
        return str(self.link[2])

    @property
    def pods(self):
        return ipaddress.ip_network(f"10.244.{self.number}.0/24")

    @property
    def gateway(self):
        """The bridge of the pods; the cluster's DNS listens there."""
        return str(self.pods[1])

    @property
    def services(self):
        return ipaddress.ip_network(f"10.96.{self.number}.0/24")


class Undo:
    """Commands that are run, in the order they were given, when close() is called or this process is gone."""

    SCRIPT = 'undo=; while IFS= read -r line; do undo="$undo$line\n"; done; eval "$undo"'

    def __init__(self):
        self.process = subprocess.Popen(["/bin/sh", "-c", self.SCRIPT, "undo"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                        start_new_session=True, text=True)

    def later(self, command):
        """Before what it undoes is done: an owner that is killed between both leaves nothing."""
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def call(*command, check=True):
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if check and done.returncode != 0:
        raise NoRoom(f"{' '.join(map(str, command))}: {done.stdout.strip()[-2000:]}")
    return done


def obstacle():
    """Why rooms cannot be made here (an ordinary container, another user than root); None when they can."""
    if os.geteuid() != 0:
        return "namespaces need root"
    done = call("unshare", "--mount", "--pid", "--net", "--uts", "--ipc", "--fork", "--propagation", "private", "true", check=False)
    return None if done.returncode == 0 else f"namespaces cannot be made here: {done.stdout.strip()}"


class Namespaces:
    """`enter` in front of a command runs it inside. remove: the folder that is removed at the end, `folder` or one above it. Not thread-safe."""

    def __init__(self, folder, host_name, remove=None):
        self.folder, self.host_name = pathlib.Path(folder).resolve(), host_name
        self.remove = pathlib.Path(remove or folder).resolve()
        self.undo = self.holder = self.init = self.network = None

    def open(self):
        if os.geteuid() != 0:
            raise NoRoom("a node needs root: namespaces, mounts and interfaces are made")
        for place in HIDDEN:
            if self.folder.is_relative_to(place):
                raise NoRoom(f"{self.folder} is below {place}, which has other content in the node; choose another folder")
        if missing := [name for name in ("unshare", "nsenter", "ip") if shutil.which(name) is None]:
            raise NoRoom(f"{', '.join(missing)}: not on the PATH (packages iproute2 and util-linux)")
        self.folder.mkdir(parents=True, exist_ok=True)
        self.undo = Undo()
        try:
            self._hold()
            self._connect()
            self._furnish()
            self._group()
            # What is mounted inside is mounted nowhere else: only the bare folders are left to remove, once nobody writes into them.
            gone = shlex.quote(str(self.remove))
            self.undo.later(f"for i in $(seq 100); do rm -rf {gone}; [ -e {gone} ] || break; sleep 0.1; done")
        except BaseException:
            self.close()
            raise
        return self

    def close(self):
        """Ends every process inside; mounts and interfaces vanish with the last one, then the folder."""
        if self.undo:
            self.undo.close()
            self.undo = None
        if self.holder:
            self.holder.kill()
            self.holder.wait()
            self.holder = None

    @property
    def enter(self):
        return ["nsenter", "-t", str(self.init), "-m", "-p", "-n", "-u", "-i", "-r", "-w", "--"]

    # ---------------------------------------------------------------- steps

    def _hold(self):
        command = ["unshare", "--mount", "--pid", "--net", "--uts", "--ipc", "--fork", "--kill-child", "--mount-proc", "--propagation", "private", "bash", "-c", INIT]
        with open(self.folder / "init.log", "wb") as log:
            self.holder = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        # --kill-child: the first process inside, and so all of them, goes with its parent.
        self.undo.later(f"kill -9 {self.holder.pid}")
        self.init = self._first_inside()

    def _first_inside(self):
        """The pid, seen from here, once it runs what it shall run: then /proc is the namespace's."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            children = pathlib.Path(f"/proc/{self.holder.pid}/task/{self.holder.pid}/children")
            try:
                pid = int(children.read_text(encoding="ascii").split()[0])
                if pathlib.Path(f"/proc/{pid}/comm").read_text(encoding="ascii").strip() == "bash":
                    return pid
            except (OSError, IndexError):
                pass
            if self.holder.poll() is not None:
                break
            time.sleep(0.02)
        raise NoRoom(f"namespaces were not made: {(self.folder / 'init.log').read_text(encoding='utf-8').strip() or 'no word within 60 s'}")

    def _connect(self):
        """A number whose interface nobody has. Making the interface is what takes it: two cannot choose the same."""
        first = random.SystemRandom().randrange(MOST)
        for each in range(MOST):
            network = Network((first + each) % MOST)
            made = call("ip", "link", "add", network.name, "type", "veth", "peer", "name", "eth0", "netns", self.init, check=False)
            if made.returncode == 0:
                break
            if "File exists" not in made.stdout:
                raise NoRoom(f"no pair of interfaces (veth) can be made here: {made.stdout.strip()}")
        else:
            raise NoRoom(f"{MOST} nodes run on this machine already")
        self.network = network
        self.undo.later(f"ip link del {network.name}")
        call("ip", "addr", "add", f"{network.host}/30", "dev", network.name)
        call("ip", "link", "set", network.name, "up")
        inside = ["nsenter", "-t", str(self.init), "-n", "--", "ip"]
        call(*inside, "addr", "add", f"{network.node}/30", "dev", "eth0")
        call(*inside, "link", "set", "eth0", "up")
        for wanted in (network.pods, network.services):
            call("ip", "route", "replace", wanted, "via", network.node)
        # Should the node die, what is for it takes no other way out of this machine.
        for wanted in (network.link, network.pods, network.services):
            self.undo.later(f"ip route del unreachable {wanted} metric 9999")
            call("ip", "route", "replace", "unreachable", wanted, "metric", "9999")

    def _furnish(self):
        """Folders of its own, the bridge of the pods, settings."""
        network, home = self.network, self.folder
        quoted = shlex.quote(str(home))
        for name in ("kubelet", "cni-state", "log", "settings", "containerd"):
            (home / name).mkdir(exist_ok=True)
        lines = ["set -e", f"hostname {self.host_name}", "mount --make-rshared /", "mount -t tmpfs -o mode=755 tmpfs /run", "mkdir -p /run/netns /run/containerd",
                 "mount -t tmpfs -o mode=755 tmpfs /var/lib", "mkdir /var/lib/kubelet /var/lib/cni", f"mount --bind {quoted}/kubelet /var/lib/kubelet",
                 f"mount --bind {quoted}/cni-state /var/lib/cni", f"mount --bind {quoted}/log /var/log"]
        for setting, value in SETTINGS.items():
            stand_in = home / "settings" / setting.replace("/", ".")
            stand_in.write_text(f"{value}\n", encoding="ascii")
            lines.append(f"[ ! -e /proc/sys/{setting} ] || mount --bind {shlex.quote(str(stand_in))} /proc/sys/{setting}")
        lines += ["ip link set lo up", "echo 1 >/proc/sys/net/ipv4/ip_forward", "ip link add cni0 type bridge", f"ip addr add {network.gateway}/24 dev cni0", "ip link set cni0 up",
                  # Where the bridge module looks at iptables at all (services reached from a pod on the same node).
                  "[ ! -e /proc/sys/net/bridge/bridge-nf-call-iptables ] || echo 1 >/proc/sys/net/bridge/bridge-nf-call-iptables"]
        call(*self.enter, "bash", "-c", "\n".join(lines))

    def _group(self):
        """One control group for all pods, in each hierarchy of version 1, or in the one of version 2."""
        name = self.network.name
        unified = (GROUPS / "cgroup.controllers").exists()
        hierarchies = [folder for folder in sorted(GROUPS.iterdir()) if folder.name != "unified" and not folder.is_symlink() and folder.is_mount()]
        if not unified:
            self._remove_later(GROUPS / "unified" / name)  # where there are both, runc makes it there as well
        for place in [GROUPS / name] if unified else [folder / name for folder in hierarchies]:
            self._remove_later(place)
            place.mkdir(exist_ok=True)
            for setting in ("cpuset.cpus", "cpuset.mems"):
                if (place / setting).exists() and not unified:
                    (place / setting).write_text((place.parent / setting).read_text(encoding="ascii"), encoding="ascii")
            if unified:
                # One by one: those that kubelet needs and does not get, it names itself.
                for folder in (GROUPS, place):
                    for controller in (folder / "cgroup.controllers").read_text(encoding="ascii").split():
                        with contextlib.suppress(OSError):
                            (folder / "cgroup.subtree_control").write_text(f"+{controller}", encoding="ascii")

    def _remove_later(self, group):
        """Its processes are ending meanwhile: a group with one in it cannot be removed."""
        self.undo.later(f"for i in $(seq 100); do [ -d {group} ] || break; find {group} -depth -type d -exec rmdir {{}} + ; [ -d {group} ] || break; sleep 0.1; done")
