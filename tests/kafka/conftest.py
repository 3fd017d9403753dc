import os
import pathlib
import random
import sys

import pytest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[1] / "testbed" / "kafka")]
import brokers  # noqa: E402
import harness  # noqa: E402
import proxy as proxies  # noqa: E402


def pytest_configure(config):
    config.addinivalue_line("markers", "long: waits for a minute or more; `./dev soak kafka` runs it, `./dev test` does not")


def started(folder, **options):
    cluster = brokers.Cluster(folder / "run", **options)
    proxy = proxies.Proxy(cluster)
    try:
        with cluster:
            yield cluster, proxy
    finally:
        proxy.close()


@pytest.fixture(scope="session")
def one(tmp_path_factory):
    """One broker behind a proxy, shared by all tests that do not break it for good."""
    yield from started(tmp_path_factory.mktemp("one"))


@pytest.fixture(scope="session")
def three(tmp_path_factory):
    """Three brokers behind a proxy; whoever takes one down starts it again."""
    yield from started(tmp_path_factory.mktemp("three"), brokers=3)


@pytest.fixture(scope="session")
def guarded(tmp_path_factory):
    """One broker with SASL and access rules."""
    with brokers.Cluster(tmp_path_factory.mktemp("guarded") / "run", secure=True, acls=True) as cluster:
        yield cluster


@pytest.fixture
def group(tmp_path):
    """Makes groups: group((cluster, proxy) or cluster, options...), of another kind than harness.Group with `kind`; what still runs at the end of the test is killed."""
    made, proxies_used = [], []

    def make(where, kind=harness.Group, **options):
        cluster, proxy = where if isinstance(where, tuple) else (where, None)
        if proxy:
            proxies_used.append(proxy)
        made.append(kind(tmp_path, cluster, proxy, **options))
        return made[-1]

    yield make
    for proxy in proxies_used:
        proxy.clear()
        proxy.allow()
    for each in made:
        each.close()


@pytest.fixture
def seed(request):
    """FAULTS_SEED=n repeats a run; the seed is printed when the test fails."""
    value = int(os.environ.get("FAULTS_SEED", random.SystemRandom().randrange(1 << 32)))
    print(f"FAULTS_SEED={value}")
    return random.Random(value)
