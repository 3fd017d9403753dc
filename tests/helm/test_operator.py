"""The installed operator runs: pods of the chart become processes of the real program (tests/testbed/cluster/kubelet.py), with the rights of its service
account and no other."""

import os
import pathlib
import re
import urllib.request

import chart
import container
import pytest
from kubelet import Kubelet

BIN = pathlib.Path(os.environ.get("MILLSTREAM_BUILD_DIR", chart.ROOT / "build")) / "bin"
IMAGE = "millstream/operator:0.1.0"
ALERTS = (chart.CHART / "files" / "alerts.yaml").read_text(encoding="utf-8")


def pods(cluster, namespace=chart.NAMESPACE):
    return [pod for pod in cluster.admin.list("Pod", namespace, labelSelector="app.kubernetes.io/name=millstream-operator") if "deletionTimestamp" not in pod["metadata"]]


@pytest.fixture
def node(bare):
    """A node on which the operator's image runs; yields (cluster, kubelet)."""
    def inside(running, arguments):
        """What a container would see of its own: its network, its account, the cluster's names."""
        told = []
        for argument in arguments:
            if argument == "--http-address=0.0.0.0":
                argument = f"--http-address={running.pod.ip}"
            service = re.match(r"--probe=http://[a-z0-9.-]+\.svc:\d+(/.*)", argument)
            if service:
                argument = f"--probe=http://{pods(bare)[0]['status']['podIP']}:8080{service[1]}"
            told.append(argument)
        account = running.pod.spec["serviceAccountName"]
        if running.pod.spec.get("automountServiceAccountToken"):
            told.append(f"--kubeconfig={bare.account_kubeconfig(running.pod.namespace, account, bare.folder / f'{running.pod.name}.kubeconfig')}")
        return told

    with Kubelet(bare, {IMAGE: container.program(str(BIN / "millstream-operator"), hook=inside)}) as kubelet:
        yield bare, kubelet
        bare.run("helm", "uninstall", chart.RELEASE, "--namespace", chart.NAMESPACE, check=False)
        bare.wait(lambda: not bare.admin.list("Pod", chart.NAMESPACE), "the operator to end")


def install(cluster, *arguments, values=None):
    return cluster.helm("install", chart.RELEASE, chart.CHART, "--namespace", chart.NAMESPACE, "--create-namespace", *chart.sets(values or {}), *arguments)


def logs(kubelet):
    return {name: pod.mains[0].log() for name, pod in kubelet.pods.items() if name.startswith(chart.NAMESPACE)}


def fetch(cluster, path):
    with urllib.request.urlopen(f"http://{pods(cluster)[0]['status']['podIP']}:8080{path}", timeout=30) as answer:
        return answer.read().decode()


def metrics_of(cluster):
    return set(re.findall(r"^(millstream_operator_[a-z_]+?)(?:_bucket|_sum|_count)?[{ ]", fetch(cluster, "/metrics"), re.MULTILINE))


def leading(cluster):
    """The name of the pod that holds the lease; its identity there begins with it."""
    lease = cluster.admin.get("Lease", chart.NAMESPACE, chart.NAME) or {}
    holder = lease.get("spec", {}).get("holderIdentity", "")
    return next((name for name in (pod["metadata"]["name"] for pod in pods(cluster)) if holder.startswith(name)), None)


def test_helm_waits_for_it_and_tests_it(node):
    cluster, kubelet = node
    install(cluster, "--wait", "--timeout=5m")
    assert "Phase:          Succeeded" in cluster.helm("test", chart.RELEASE, "--namespace", chart.NAMESPACE)
    cluster.wait(lambda: leading(cluster), "the operator to lead")
    # Of counters only what has happened is there; there was no pass, as there is no processor.
    asked = set(re.findall(r"millstream_operator_[a-z_]+", ALERTS)) - {"millstream_operator_reconcile_total"}
    cluster.wait(lambda: asked <= metrics_of(cluster), "the metrics that alerts ask for")
    page = (chart.ROOT / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")
    undocumented = metrics_of(cluster) - set(re.findall(r"millstream_operator_[a-z_]+", page))
    assert not undocumented, "run tools/docs/metrics.py"
    assert not [line for log in logs(kubelet).values() for line in log.splitlines() if "forbidden" in line.lower()]


def test_of_two_the_other_takes_over(node):
    cluster, _ = node
    install(cluster, "--wait", "--timeout=5m", values={"replicas": 2})
    cluster.wait(lambda: leading(cluster), "one of two to lead")
    first = leading(cluster)
    cluster.admin.delete("Pod", chart.NAMESPACE, first)
    cluster.wait(lambda: leading(cluster) not in (None, first), "the other to lead")


def test_without_the_definition_it_says_so_and_waits(node):
    cluster, kubelet = node
    install(cluster, values={"crds": {"install": False}})
    cluster.wait(lambda: any("streamprocessors" in log for log in logs(kubelet).values()), "the log to name what is missing")
    cluster.crd(chart.ROOT / "crds" / "streamprocessors.yaml")
    cluster.kubectl("rollout", "status", f"deployment/{chart.NAME}", "--namespace", chart.NAMESPACE, "--timeout=300s")
    assert all(each.restarts == 0 for pod in kubelet.pods.values() for each in pod.mains), "it did not have to be started again"
