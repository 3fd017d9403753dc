import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import brokers  # noqa: E402
import proxy as proxies  # noqa: E402


@pytest.fixture(scope="session")
def proxied(tmp_path_factory):
    """One broker behind a proxy: (cluster, proxy)."""
    cluster = brokers.Cluster(tmp_path_factory.mktemp("kafka") / "run")
    proxy = proxies.Proxy(cluster)
    with cluster:
        yield cluster, proxy
    proxy.close()
