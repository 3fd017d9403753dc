import itertools
import pathlib
import re
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "tests" / "testbed" / "cluster")]
import control_plane  # noqa: E402
import rig  # noqa: E402

NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    """One control plane with the StreamProcessor resource and no operator."""
    with control_plane.ControlPlane(tmp_path_factory.mktemp("cluster") / "run") as made:
        made.crd(ROOT / "crds" / "streamprocessors.yaml")
        yield made


@pytest.fixture(scope="session")
def world(tmp_path_factory):
    """An operator installed by its chart, and a node on which all other pods are pretended; for all tests that do not break it for good."""
    with rig.World(tmp_path_factory.mktemp("world") / "run") as made:
        yield made


@pytest.fixture
def space(request, world):
    """A namespace of the test's own, gone afterwards."""
    name = f"{re.sub('[^a-z0-9]+', '-', request.node.name.lower()).strip('-')[:40].strip('-')}-{next(NUMBERS)}"
    yield world.cluster.namespace(name)
    if world.admin.get("Namespace", None, name):
        world.admin.delete("Namespace", None, name)
