#!/usr/bin/env python3
"""./dev bench operator [--processors N]: so many processors at once (default 1,000), on a real API server with pretended pods.

Prints how long until all have their children and until all are Ready, what the operator asked of the API server for each, and its memory."""

import argparse
import collections
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "operator"))
import many  # noqa: E402
import rig  # noqa: E402


def main():
    parser = argparse.ArgumentParser(prog="./dev bench operator")
    parser.add_argument("--processors", type=int, default=1000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="millstream-bench.") as scratch, rig.World(pathlib.Path(scratch) / "run", values={"log.level": "info"}) as world:
        space = world.cluster.namespace("many")
        figures = many.create(world, space, options.processors)
        print(f"{options.processors} processors, created in {figures.created:.1f} s")
        print(f"all have their children    {figures.children:.1f} s after the last one was created")
        print(f"all are Ready              {figures.ready:.1f} s after the last one was created")
        print(f"memory of the operator     {figures.memory / 1e6:.0f} MB")
        print(f"API calls per processor    {figures.calls:.1f}, of which writes {figures.writes:.1f}")
        for what, count in collections.Counter(figures.kinds).most_common(12):
            print(f"  {count / options.processors:6.2f}  {what}")


if __name__ == "__main__":
    main()
