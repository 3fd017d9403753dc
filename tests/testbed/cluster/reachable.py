"""A Kafka broker that the pods of a node reach, and that has a name in the cluster: kafka.kafka:9092."""

import contextlib
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "kafka"))
import brokers  # noqa: E402

NAMESPACE, NAME, PORT = "kafka", "kafka", 9092
ADDRESS = f"{NAME}.{NAMESPACE}:{PORT}"


def name_it(cluster, host, port):
    """A Service without pods: its endpoint is this machine."""
    cluster.namespace(NAMESPACE)
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": NAME, "namespace": NAMESPACE}, "spec": {"ports": [{"port": PORT, "targetPort": port}]}}
    cluster.admin.create(service)
    cluster.admin.create({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4", "ports": [{"name": "", "port": port}],
                          "endpoints": [{"addresses": [host]}],
                          "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": {"kubernetes.io/service-name": NAME}}})


@contextlib.contextmanager
def broker(folder, cluster, **options):
    """A brokers.Cluster of one, whose listeners are for pods; INTERNAL is on loopback, for tests."""
    with brokers.Cluster(folder, host=cluster.network.host, **options) as made:
        name_it(cluster, cluster.network.host, made.brokers[0].ports["PLAINTEXT"])
        yield made
