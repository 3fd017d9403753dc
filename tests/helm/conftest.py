import pathlib
import sys

import pytest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[1] / "testbed" / "cluster")]
import control_plane  # noqa: E402
from releases import remove_millstream  # noqa: E402


def monitoring_definition(plural, kind):
    """As far as the chart needs them: what the Prometheus operator brings into a cluster."""
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": f"{plural}.monitoring.coreos.com"},
            "spec": {"group": "monitoring.coreos.com", "scope": "Namespaced", "names": {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"},
                     "versions": [{"name": "v1", "served": True, "storage": True,
                                   "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}]}}


MONITORING = {"podmonitors": "PodMonitor", "servicemonitors": "ServiceMonitor", "prometheusrules": "PrometheusRule"}


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    """One control plane for all tests; it knows the resources of a Prometheus operator."""
    with control_plane.ControlPlane(tmp_path_factory.mktemp("helm") / "run") as made:
        for plural, kind in MONITORING.items():
            made.admin.create(monitoring_definition(plural, kind))
        for plural in MONITORING:
            made.established(f"{plural}.monitoring.coreos.com")
        yield made


@pytest.fixture
def bare(cluster):
    """The cluster without anything of Millstream in it, before and after the test."""
    remove_millstream(cluster)
    yield cluster
    remove_millstream(cluster)
