#!/usr/bin/env python3
"""./dev bench operator [--processors N]: so many processors at once (default 1,000), on a real API server with pretended pods.

Prints how long until all have their children and until all are Ready, what the operator asked of the API server for each, and its memory."""

import argparse
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "operator"))
import many  # noqa: E402
import rig  # noqa: E402

QUIET = 35  # seconds; each processor is looked at every 30


def main():
    parser = argparse.ArgumentParser(prog="./dev bench operator")
    parser.add_argument("--processors", type=int, default=1000)
    parser.add_argument("--steady", type=int, default=120, help="seconds to look at what it writes when nothing happens any more")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="millstream-bench.") as scratch, rig.World(pathlib.Path(scratch) / "run", values={"log.level": "info"}) as world:
        space = world.cluster.namespace("many")
        many.report(world, space, options.processors, QUIET, options.steady)


if __name__ == "__main__":
    main()
