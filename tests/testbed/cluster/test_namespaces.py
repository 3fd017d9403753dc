"""The room of a node: what is inside, what is not outside, and that nothing stays behind, however its owner ends. Needs root, as the room does."""

import json
import pathlib
import signal
import subprocess
import sys
import time
import tomllib
import types

import namespaces
import node
import node_files
import pki
import pytest

import brokers

HERE = pathlib.Path(__file__).resolve().parent
DEADLINE = 300.0
OWNER = """
import pathlib, sys, time
sys.path[:0] = [sys.argv[1]]
import namespaces
room = namespaces.Namespaces(pathlib.Path(sys.argv[2]), "node1").open()
print(room.network.number, room.init, flush=True)
time.sleep(1000)
"""
OBSTACLE = namespaces.obstacle()
pytestmark = pytest.mark.skipif(OBSTACLE is not None, reason=str(OBSTACLE))


def call(*command):
    return subprocess.run([str(each) for each in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False).stdout


def traces(network):
    """What this machine shows of a room: interface, routes, control groups."""
    routes = [line for line in call("ip", "route").splitlines() if any(str(each) in line for each in (network.link, network.pods, network.services))]
    groups = [*namespaces.GROUPS.glob(f"*/{network.name}"), *namespaces.GROUPS.glob(network.name)]
    interface = pathlib.Path(f"/sys/class/net/{network.name}")
    return [*routes, *map(str, groups), *([str(interface)] if interface.exists() else [])]


def ended(pid):
    """Gone, or a zombie that the first process of this machine has not fetched yet."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def wait_until(condition, what):
    end = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < end, f"waited for {what}"
        time.sleep(0.05)


@pytest.fixture
def room(tmp_path):
    made = namespaces.Namespaces(tmp_path / "room", "node1").open()
    yield made
    made.close()


def test_inside_is_a_machine_of_its_own(room):
    inside = lambda script: call(*room.enter, "bash", "-c", script).strip()
    assert inside("hostname") == "node1" and call("hostname").strip() != "node1"
    assert inside("cat /proc/1/comm") == "bash"
    assert inside("ls /var/lib").split() == ["cni", "kubelet"]
    addresses = inside("ip -o -4 addr")
    assert f"{room.network.node}/30" in addresses and f"{room.network.gateway}/24" in addresses
    assert not [line for line in inside("ip route").splitlines() if line.startswith("default")], "nothing leaves"


def test_settings_of_the_machine_stay(room):
    before = pathlib.Path("/proc/sys/kernel/panic").read_text(encoding="ascii")
    assert call(*room.enter, "cat", "/proc/sys/kernel/panic").strip() == "10"
    call(*room.enter, "bash", "-c", "echo 77 >/proc/sys/kernel/panic")
    assert call(*room.enter, "cat", "/proc/sys/kernel/panic").strip() == "77"
    assert pathlib.Path("/proc/sys/kernel/panic").read_text(encoding="ascii") == before


def test_its_folders_are_kept_outside_and_its_mounts_are_not_seen(room):
    call(*room.enter, "bash", "-c", "echo here >/var/lib/kubelet/file; mkdir /run/x; mount -t tmpfs tmpfs /run/x")
    assert (room.folder / "kubelet" / "file").read_text(encoding="ascii") == "here\n"
    assert str(room.folder) not in pathlib.Path("/proc/self/mountinfo").read_text(encoding="utf-8")


def test_two_rooms_have_different_addresses_and_leave_nothing(tmp_path):
    rooms = [namespaces.Namespaces(tmp_path / each, each).open() for each in ("one", "two")]
    try:
        assert rooms[0].network != rooms[1].network and all(traces(each.network) for each in rooms)
        assert not rooms[0].network.pods.overlaps(rooms[1].network.pods)
    finally:
        for each in rooms:
            each.close()
    assert not list(tmp_path.iterdir())
    for each in rooms:
        wait_until(lambda: not traces(each.network), "its traces to go")
        wait_until(lambda: ended(each.init), "its processes to end")



def test_nothing_outlives_a_killed_owner(tmp_path):
    owner = subprocess.Popen([sys.executable, "-c", OWNER, str(HERE), str(tmp_path / "room")], stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        number, init = map(int, owner.stdout.readline().split())
    finally:
        owner.send_signal(signal.SIGKILL)
        owner.wait()
        owner.stdout.close()
    wait_until(lambda: not (tmp_path / "room").exists(), "its folder to go")
    wait_until(lambda: ended(init), "its processes to end")
    wait_until(lambda: not traces(namespaces.Network(number)), "its traces to go")


def test_a_folder_that_is_hidden_inside_is_refused():
    with pytest.raises(namespaces.NoRoom, match="/var/lib, which has other content"):
        namespaces.Namespaces("/var/lib/millstream-test", "node1").open()
    assert not pathlib.Path("/var/lib/millstream-test").exists()


def test_addresses_of_rooms_never_overlap():
    networks = [namespaces.Network(number) for number in range(namespaces.MOST)]
    for kind in ("link", "pods", "services"):
        assert len({getattr(each, kind) for each in networks}) == namespaces.MOST
    assert all(len(each.name) <= 15 for each in networks), "the longest name an interface may have"


def test_signals_reach_the_program_and_not_who_waits_for_it(room, tmp_path):
    watchdog = brokers.Watchdog(tmp_path / "none")
    process = node.NodeProcess("sleeper", tmp_path, watchdog, room.enter, ["sleep", "1000"])
    try:
        process.start()
        pid = process.pid()
        wait_until(lambda: pathlib.Path(f"/proc/{pid}/comm").read_text(encoding="ascii").strip() == "sleep", "the program")
        state = lambda: pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
        process.pause()
        wait_until(lambda: state() == "T", "it to stop")
        process.go_on()
        wait_until(lambda: state() == "S" and process.alive(), "it to go on")
        process.kill()
        assert process.process is None
        wait_until(lambda: ended(pid), "it to end")
        process.start()  # again, on the same log
        assert process.alive()
    finally:
        process.kill()
        watchdog.close()


def test_what_the_programs_read_names_this_room(tmp_path):
    """Each file as the program would read it; the addresses are the room's."""
    network = namespaces.Network(7)
    folder = tmp_path / "node"
    folder.mkdir()
    cluster = types.SimpleNamespace(authority=pki.Authority(tmp_path / "pki"), url="https://10.200.7.1:1")
    users = node_files.write(folder, network, cluster, "node1", {"nodeStatusUpdateFrequency": "1s"})
    kubelet = json.loads((folder / "kubelet.json").read_text(encoding="ascii"))
    assert kubelet["clusterDNS"] == ["10.244.7.1"] and kubelet["cgroupRoot"] == "/millstream7" and kubelet["nodeStatusUpdateFrequency"] == "1s"
    assert json.loads((folder / "cni" / "10-pods.conflist").read_text(encoding="ascii"))["plugins"][0]["ipam"]["ranges"] == [[{"subnet": "10.244.7.0/24"}]]
    assert json.loads((folder / "kube-proxy.json").read_text(encoding="ascii"))["clusterCIDR"] == "10.244.7.0/24"
    assert json.loads(users["kubelet"].read_text(encoding="ascii"))["clusters"][0]["cluster"]["server"] == cluster.url
    runtime = tomllib.loads((folder / "containerd.toml").read_text(encoding="ascii"))["plugins"]["io.containerd.grpc.v1.cri"]
    assert runtime["cni"]["conf_dir"] == f"{folder}/cni" and runtime["sandbox_image"] == node.PAUSE
    serving = call("openssl", "x509", "-noout", "-text", "-in", kubelet["tlsCertFile"])
    assert "IP Address:10.200.7.2" in serving and "DNS:node1" in serving
    assert "O = system:nodes, CN = system:node:node1" in call("openssl", "x509", "-noout", "-subject", "-in", cluster.authority.folder / "kubelet.crt")


def test_addresses_of_the_room_are_asked_without_a_proxy(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "example.com")
    settings = node.reached_directly(namespaces.Network(3))
    assert settings["no_proxy"] == settings["NO_PROXY"] == "example.com,10.200.3.1,10.200.3.2,10.244.3.0/24,10.96.3.0/24"


def test_the_first_process_of_a_pod_is_static_and_ends_when_told(tmp_path):
    assert node.pause_image().stat().st_size > 0
    done = subprocess.run(["cc", "-Os", "-static", "-s", "-Wall", "-Wextra", "-Werror", "-o", str(tmp_path / "pause"), str(HERE / "pause.c")], check=False)
    assert done.returncode == 0 and " => " not in call("ldd", tmp_path / "pause")
    running = subprocess.Popen([str(tmp_path / "pause")])
    wait_until(lambda: int(next(line for line in pathlib.Path(f"/proc/{running.pid}/status").read_text(encoding="ascii").splitlines()
                                if line.startswith("SigCgt")).split()[1], 16) & 1 << signal.SIGTERM - 1, "it to listen to signals")
    running.terminate()
    assert running.wait(DEADLINE) == 0
