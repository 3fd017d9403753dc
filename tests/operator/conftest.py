import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "tests" / "testbed" / "cluster")]
import control_plane  # noqa: E402


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    """One control plane with the StreamProcessor resource, for all tests that do not break it."""
    with control_plane.ControlPlane(tmp_path_factory.mktemp("cluster") / "run", audit=True) as made:
        made.crd(ROOT / "crds" / "streamprocessors.yaml")
        yield made
