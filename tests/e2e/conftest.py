import itertools
import pathlib
import re
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "tests" / "testbed" / "cluster")]
import namespaces  # noqa: E402
import rig  # noqa: E402

NUMBERS = itertools.count(1)
OBSTACLE = namespaces.obstacle()


def pytest_collection_modifyitems(items):
    for item in items:
        item.add_marker(pytest.mark.skipif(OBSTACLE is not None, reason=str(OBSTACLE)))


@pytest.fixture(scope="session")
def world(tmp_path_factory):
    """A cluster with a node, a broker, the operator, and the image of the worker that most tests run."""
    with rig.World(tmp_path_factory.mktemp("world") / "run") as made:
        made.image(rig.WORKER, [HERE / "worker.py"])
        made.install()
        yield made


@pytest.fixture
def space(request, world):
    """A namespace of the test's own, with the strictest Pod Security, gone afterwards."""
    name = f"{re.sub('[^a-z0-9]+', '-', request.node.name.lower()).strip('-')[:40].strip('-')}-{next(NUMBERS)}"
    yield world.cluster.namespace(name, rig.RESTRICTED)
    world.admin.delete("Namespace", None, name)
