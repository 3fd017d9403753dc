"""The room of a node: what is inside, what is not outside, and that nothing stays behind, however its owner ends. Needs root, as the room does."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import namespaces
import pytest

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
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root")


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
