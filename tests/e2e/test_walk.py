"""The tutorial, word for word, on a cluster of its own."""

import pathlib
import subprocess
import sys

import rig

PAGE = "docs/start/cluster.md"


def test_the_tutorial_runs_as_it_is_written(tmp_path):
    with rig.World(tmp_path / "run") as world:
        enter = world.cluster.node.room.enter
        rig.keeper.write(world.folder, world.cluster.environment(), enter=enter, host=world.cluster.network.host)  # for ./dev cluster image
        done = subprocess.run([sys.executable, str(rig.ROOT / "tools" / "dev" / "run_docs.py"), PAGE], env=world.environment(), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=1500)
        problem = "" if done.returncode == 0 else f"{done.stdout[-6000:]}\n{world.describe()}"
    assert not problem, problem
    commands = sum(line.startswith("$ ") for line in (pathlib.Path(rig.ROOT) / PAGE).read_text(encoding="utf-8").splitlines())
    assert f"{commands} passed, 0 failed" in done.stdout
