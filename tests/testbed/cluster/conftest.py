import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import control_plane  # noqa: E402


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    """One control plane for all tests that do not break it."""
    with control_plane.ControlPlane(tmp_path_factory.mktemp("cluster") / "run", audit=True) as made:
        yield made
