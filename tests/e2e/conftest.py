import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "tests" / "testbed" / "cluster")]
import namespaces  # noqa: E402

OBSTACLE = namespaces.obstacle()


def pytest_collection_modifyitems(items):
    for item in items:
        item.add_marker(pytest.mark.skipif(OBSTACLE is not None, reason=str(OBSTACLE)))
