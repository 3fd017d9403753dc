"""The test bed itself: what comes up is a whole control plane with access rules, many fit on one machine, and nothing is left behind."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import api
import control_plane
import pytest

COMMAND = pathlib.Path(__file__).resolve().parent / "command.py"
DEADLINE = 300.0

STATEFUL_SET = {
    "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "s", "namespace": "controllers"},
    "spec": {"serviceName": "s", "replicas": 2, "podManagementPolicy": "Parallel", "selector": {"matchLabels": {"app": "s"}},
             "template": {"metadata": {"labels": {"app": "s"}}, "spec": {"containers": [{"name": "c", "image": "none:1"}]}}},
}


def processes_of(folder):
    """Processes whose command line names the folder."""
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if str(folder).encode() in (entry / "cmdline").read_bytes() and int(entry.name) != os.getpid():
                found.append(entry.name)
        except OSError:
            continue
    return found


def wait_for(condition, what):
    end = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < end, f"waited for {what}"
        time.sleep(0.05)


def test_says_its_release(cluster):
    assert cluster.admin.call("GET", "/version")["gitVersion"] == "v1.34.3"
    assert "v1.34.3" in cluster.kubectl("version")


def test_controllers_act_and_collect(cluster):
    cluster.namespace("controllers")
    cluster.admin.create(STATEFUL_SET)
    cluster.wait(lambda: {pod["metadata"]["name"] for pod in cluster.admin.list("Pod", "controllers")} == {"s-0", "s-1"}, "the pods of a StatefulSet")
    cluster.admin.delete("StatefulSet", "controllers", "s")
    cluster.wait(lambda: not cluster.admin.list("Pod", "controllers"), "the pods to go with it")


def test_access_rules_hold_and_requests_are_counted(cluster):
    cluster.namespace("guarded")
    reader = cluster.account("guarded", "default")
    with pytest.raises(api.ApiError, match='cannot list resource "secrets"'):
        reader.list("Secret", "guarded")
    cluster.kubectl("create", "role", "r", "--verb=list", "--resource=secrets", "-n", "guarded")
    cluster.kubectl("create", "rolebinding", "r", "--role=r", "--serviceaccount=guarded:default", "-n", "guarded")
    assert reader.list("Secret", "guarded") == []
    seen = cluster.requests("guarded:default")
    assert [(each["verb"], each["resource"], each["code"]) for each in seen] == [("list", "secrets", 403), ("list", "secrets", 200)]


def test_the_same_user_by_kubectl(cluster):
    cluster.namespace("by-kubectl")
    path = cluster.account_kubeconfig("by-kubectl", "default")
    refused = cluster.run("kubectl", "get", "secrets", kubeconfig=path, check=False)
    assert refused.returncode != 0 and "system:serviceaccount:by-kubectl:default" in refused.stderr


def test_watch_shows_what_happens(cluster):
    cluster.namespace("watched")
    watch = cluster.admin.watch("ConfigMap", "watched", fieldSelector="metadata.name=one")
    cluster.admin.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one", "namespace": "watched"}})
    events = (event for event in watch if event[0] != "BOOKMARK")
    assert next(events)[0] == "ADDED"
    cluster.admin.merge("ConfigMap", "watched", "one", {"data": {"a": "b"}})
    kind, changed = next(events)
    assert (kind, changed["data"]) == ("MODIFIED", {"a": "b"})
    cluster.admin.delete("ConfigMap", "watched", "one")
    assert next(events)[0] == "DELETED"


def test_state_outlives_the_api_server(cluster):
    cluster.namespace("kept")
    cluster.stop_api()
    with pytest.raises(OSError):
        cluster.admin.get("Namespace", None, "kept")
    cluster.start_api()
    assert cluster.admin.get("Namespace", None, "kept")["status"]["phase"] == "Active"


def test_helm_knows_the_release(cluster, tmp_path):
    (tmp_path / "templates").mkdir()
    (tmp_path / "Chart.yaml").write_text("apiVersion: v2\nname: c\nversion: 0.1.0\nkubeVersion: '>=1.29.0-0'\n", encoding="ascii")
    (tmp_path / "templates" / "map.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: of-helm}\ndata: {k: '{{ .Capabilities.KubeVersion.Minor }}'}\n",
                                                     encoding="ascii")
    assert "k: '34'" in cluster.helm("template", "c", tmp_path)
    cluster.helm("install", "c", tmp_path)
    assert cluster.admin.get("ConfigMap", "default", "of-helm")["data"] == {"k": "34"}
    cluster.helm("uninstall", "c")
    assert cluster.admin.get("ConfigMap", "default", "of-helm") is None


def test_two_at_once_and_nothing_left(cluster, tmp_path):
    with control_plane.ControlPlane(tmp_path / "second") as second:
        second.admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "only-here"}})
        assert cluster.admin.get("Namespace", None, "only-here") is None
        assert processes_of(second.folder)
    assert not processes_of(second.folder) and not second.folder.exists()


def test_command_up_kubectl_down(tmp_path):
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    # Its own cache folder, so that runs of others are not seen; the programs are the ones of the common one.
    (tmp_path / "millstream").mkdir()
    (tmp_path / "millstream" / control_plane.programs.home().name).symlink_to(control_plane.programs.home())

    def call(*arguments):
        return subprocess.run([sys.executable, str(COMMAND), *arguments], env=environment, capture_output=True, text=True, check=False, timeout=DEADLINE)

    assert "./dev cluster up starts one" in call("kubectl", "get", "ns").stderr
    started = call("up")
    assert started.returncode == 0, started.stderr
    folder = pathlib.Path(started.stdout.strip())
    assert call("list").stdout.split() == [str(folder)]
    assert "kube-system" in call("kubectl", "get", "ns", "-o", "name").stdout
    assert call("down").returncode == 0
    assert not folder.exists()
    wait_for(lambda: not processes_of(folder), "its processes to end")


def test_nothing_outlives_a_killed_owner(tmp_path):
    owner = subprocess.Popen([sys.executable, str(COMMAND), "run", "--", "sh", "-c", "echo $KUBECONFIG; sleep 1000"], stdout=subprocess.PIPE, text=True,
                             env={**os.environ, "TMPDIR": str(tmp_path)}, start_new_session=True)
    try:
        folder = pathlib.Path(owner.stdout.readline().strip()).parent
        assert len(processes_of(folder)) >= 3
    finally:
        os.killpg(owner.pid, signal.SIGKILL)
        owner.wait()
    wait_for(lambda: not processes_of(folder), "the cluster to end with its owner")
    wait_for(lambda: not folder.exists(), "its folder to go")
