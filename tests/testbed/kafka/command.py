#!/usr/bin/env python3
"""Kafka brokers for people and scripts:

./dev kafka up [--brokers N] [--port P] [--secure] [--acls]     start; the first port is P (default: free ones)
./dev kafka down [FOLDER]                                       end and remove them (default: all that `up` started)
./dev kafka run [the same options] -- COMMAND [ARG..]           start, run the command, end; the command finds them by the environment
./dev kafka list                                                what runs
./dev kafka prepare                                             fetch what a first start would fetch

Environment of a command: MILLSTREAM_TEST_KAFKA is host:port,... of the plain listener. With --secure also
MILLSTREAM_TEST_KAFKA_SSL, _SASL_PLAINTEXT and _SASL_SSL (addresses), _CA, _CERTIFICATE and _KEY (PEM files, for user alice), _USER and
_PASSWORD (alice), _TOKEN_ENDPOINT.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import brokers
import distribution

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import keeper  # noqa: E402


def environment(cluster):
    facts = {"MILLSTREAM_TEST_KAFKA": cluster.bootstrap()}
    if cluster.secure:
        certificate, key = cluster.certificate("alice")
        facts |= {f"MILLSTREAM_TEST_KAFKA_{listener}": cluster.bootstrap(listener) for listener in brokers.SECURE}
        facts |= {"MILLSTREAM_TEST_KAFKA_CA": str(cluster.authority.ca), "MILLSTREAM_TEST_KAFKA_CERTIFICATE": str(certificate),
                  "MILLSTREAM_TEST_KAFKA_KEY": str(key), "MILLSTREAM_TEST_KAFKA_USER": "alice",
                  "MILLSTREAM_TEST_KAFKA_PASSWORD": cluster.users["alice"], "MILLSTREAM_TEST_KAFKA_TOKEN_ENDPOINT": cluster.tokens.url}
    return facts


def cluster_for(options, folder):
    return brokers.Cluster(folder, options.brokers, secure=options.secure, acls=options.acls, first_port=options.port)


def keep(options):
    """The process that owns the brokers of `up`: starts them, says so, and ends them when it is told to."""
    folder = pathlib.Path(options.folder)
    keeper.end_at_signals()
    try:
        with cluster_for(options, folder) as cluster:
            keeper.keep(folder, environment(cluster))
    except (distribution.Unavailable, brokers.BrokerFailed) as error:
        print(error, file=sys.stderr)
        return 1


def up(options):
    brokers.prepared()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="run-", dir=distribution.CACHE))
    with open(folder / "keeper.log", "wb") as log:
        process = subprocess.Popen([sys.executable, __file__, "keep", "--folder", str(folder), *flags(options)], stdin=subprocess.DEVNULL,
                                  stdout=log, stderr=log, start_new_session=True)
    while not (folder / "state.json").exists():
        if process.poll() is not None:
            print((folder / "keeper.log").read_text(encoding="utf-8") if folder.exists() else "the brokers did not start", file=sys.stderr)
            shutil.rmtree(folder, ignore_errors=True)
            return 1
        time.sleep(0.05)
    facts = json.loads((folder / "state.json").read_text(encoding="ascii"))["environment"]
    print(facts["MILLSTREAM_TEST_KAFKA"])
    print("".join(f"  {name}={value}\n" for name, value in facts.items() if name != "MILLSTREAM_TEST_KAFKA")
          + f"in {folder}; ./dev kafka down ends and removes them", file=sys.stderr)
    return 0


def flags(options):
    return [f"--brokers={options.brokers}", *([f"--port={options.port}"] if options.port else []), *(["--secure"] if options.secure else []),
            *(["--acls"] if options.acls else [])]


def down(options):
    return keeper.end(distribution.CACHE, options.folder, 30)


def run(options):
    with tempfile.TemporaryDirectory(prefix="millstream-kafka.") as scratch, cluster_for(options, pathlib.Path(scratch) / "run") as cluster:
        return subprocess.run(options.command, env={**os.environ, **environment(cluster)}, check=False).returncode


def prepare(_):
    brokers.prepared()
    return 0


def show(_):
    for folder, facts in keeper.runs(distribution.CACHE).items():
        print(facts["environment"]["MILLSTREAM_TEST_KAFKA"], folder)
    return 0


def main(arguments):
    command = []
    if "--" in arguments:
        at = arguments.index("--")
        arguments, command = arguments[:at], arguments[at + 1:]
    parser = argparse.ArgumentParser(prog="./dev kafka", usage=__doc__, add_help=False)
    parser.add_argument("verb", choices=["up", "down", "run", "list", "prepare", "keep"])
    parser.add_argument("--brokers", type=int, choices=[1, 3], default=1)
    parser.add_argument("--port", type=int)
    parser.add_argument("--secure", action="store_true")
    parser.add_argument("--acls", action="store_true")
    parser.add_argument("--folder")
    parser.add_argument("name", nargs="?", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    options.command, options.folder = command, options.folder or options.name
    if (options.verb == "run") != bool(command):
        parser.error("`run` takes a command after --, the others take none")
    try:
        return {"up": up, "down": down, "run": run, "list": show, "prepare": prepare, "keep": keep}[options.verb](options)
    except (distribution.Unavailable, brokers.BrokerFailed) as error:
        print(f"kafka: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
