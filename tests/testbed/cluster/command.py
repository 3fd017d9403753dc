#!/usr/bin/env python3
"""A Kubernetes control plane for people and scripts:

./dev cluster up [--scheduler]                start one; prints its folder
./dev cluster up node [--kafka]               one with a real node, on which containers run (root); prints the folder of the one that runs already.
                                              --kafka: with a broker, which pods reach as kafka.kafka:9092
./dev cluster shell                           a shell in which kubectl, helm and (with --kafka) the millstream command find it
./dev cluster load FILE..                     images into the node: OCI archives, as ./dev images makes them
./dev cluster image NAME FILE..               makes an image of a Python program (the first file, in /app) with the SDK, and loads it
./dev cluster node COMMAND [ARG..]            a command inside the node: ctr -n k8s.io containers list
./dev cluster kubectl ARG..                   the real kubectl against the one that was started last (MILLSTREAM_CLUSTER=FOLDER: another)
./dev cluster helm ARG..                      the same with helm
./dev cluster down [FOLDER]                   end and remove them (default: all that `up` started)
./dev cluster run [node [--kafka]] [--scheduler] -- COMMAND [ARG..]    start, run the command, end; KUBECONFIG is set and kubectl and helm are on the PATH
./dev cluster list                            what runs
./dev cluster prepare                         build what a first start would build: ten minutes on two cores

Without `node` there is none: what is applied is stored and its controllers act, but no container runs.
"""

import argparse
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import control_plane
import namespaces
import node
import programs
import reachable

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parents[2] / "images")]
import app  # noqa: E402
import keeper  # noqa: E402

RUNS = programs.CACHE / "cluster-runs"


@contextlib.contextmanager
def started(options, folder):
    """The cluster while it runs, and what commands are told of it: (environment, more)."""
    if options.rest != ["node"]:
        with control_plane.ControlPlane(folder, scheduler=options.scheduler) as cluster:
            yield cluster.environment(), {}
        return
    with node.ClusterWithNode(folder) as cluster, contextlib.ExitStack() as stack:
        environment = {**cluster.environment(), "MILLSTREAM_CLUSTER": str(folder)}
        if options.kafka:
            broker = stack.enter_context(reachable.broker(folder / "kafka", cluster))
            environment["MILLSTREAM_KAFKA"] = broker.bootstrap()
        yield environment, {"enter": cluster.node.room.enter, "host": cluster.network.host}


def keep(options):
    """The process that owns the cluster of `up`: starts it, says so, and ends it when it is told to."""
    folder = pathlib.Path(options.folder)
    keeper.end_at_signals()
    with started(options, folder) as (environment, more):
        keeper.keep(folder, environment, **more)


def up(options):
    if options.rest == ["node"] and (running := [folder for folder, facts in keeper.runs(RUNS).items() if "enter" in facts]):
        print(running[-1])
        print("runs already; ./dev cluster down ends and removes it", file=sys.stderr)
        return 0
    programs.home()
    RUNS.mkdir(parents=True, exist_ok=True)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="run-", dir=RUNS))
    command = [sys.executable, __file__, "keep", "--folder", str(folder), *(["--scheduler"] if options.scheduler else []),
               *(["--kafka"] if options.kafka else []), *options.rest]
    with open(folder / "keeper.log", "wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        # The keeper's folder goes with it when it fails: what it said is read from the open file.
        with open(folder / "keeper.log", encoding="utf-8") as said:
            while not (folder / "state.json").exists():
                if process.poll() is not None:
                    print(said.read() or "the cluster did not start", file=sys.stderr)
                    shutil.rmtree(folder, ignore_errors=True)
                    return 1
                time.sleep(0.05)
    print(folder)
    print("./dev cluster kubectl ... talks to it, ./dev cluster down ends and removes it", file=sys.stderr)
    if host := json.loads((folder / "state.json").read_text(encoding="ascii")).get("host"):
        print(f"./dev cluster load FILE brings images; pods reach this machine as {host}", file=sys.stderr)
    return 0


def down(options):
    return keeper.end(RUNS, " ".join(options.rest) or None, 60)


def chosen(which=lambda facts: True, how="./dev cluster up"):
    """(its folder, what its keeper wrote): of the one that MILLSTREAM_CLUSTER names, else of the one started last."""
    if named := os.environ.get("MILLSTREAM_CLUSTER"):
        state = pathlib.Path(named) / "state.json"
        found = {pathlib.Path(named): json.loads(state.read_text(encoding="ascii"))} if state.exists() else {}
    else:
        found = keeper.runs(RUNS)
    found = {folder: facts for folder, facts in found.items() if which(facts)}
    if not found:
        raise control_plane.ClusterFailed(f"nothing runs{' in ' + named if named else ''}: {how} starts one")
    return list(found.items())[-1]


def with_node():
    return chosen(lambda facts: "enter" in facts, "./dev cluster up node")


def client(options):
    """kubectl or helm in place of this process."""
    environment = {**os.environ, **chosen()[1]["environment"]}
    os.execvpe(str(programs.home() / options.verb), [options.verb, *options.rest], environment)


def shell(_):
    """A shell in which kubectl, helm and millstream talk to it."""
    os.execvpe(os.environ.get("SHELL", "bash"), [os.environ.get("SHELL", "bash")], {**os.environ, **chosen()[1]["environment"]})


def inside(options):
    """A command inside the node in place of this process."""
    if not options.rest:
        raise control_plane.ClusterFailed("`node` takes a command: ./dev cluster node ctr -n k8s.io images list")
    enter = with_node()[1]["enter"]
    os.execvp(enter[0], [*enter, *options.rest])


def load(options):
    for path in options.rest:
        imported(with_node()[1]["enter"], here(path))
    return 0


def here(path):
    """A file as the caller of ./dev names it, from the folder he is in."""
    return (pathlib.Path(os.environ.get("MS_FROM", ".")) / path).resolve()


def imported(enter, path):
    done = subprocess.run([*enter, "ctr", "-n", "k8s.io", "images", "import", str(path)], check=False)
    if done.returncode != 0:
        raise control_plane.ClusterFailed(f"{path} was not taken")


def image(options):
    """Makes the image of a Python program, and loads it."""
    if len(options.rest) < 2:
        raise control_plane.ClusterFailed("`image` takes a name and files: ./dev cluster image words:1 app.py")
    folder, facts = with_node()
    if missing := [file for file in map(here, options.rest[1:]) if not file.is_file()]:
        raise control_plane.ClusterFailed(f"there is no file {missing[0]}")
    with tempfile.TemporaryDirectory(prefix="millstream-image.") as scratch:
        name, files = options.rest[0], [here(file) for file in options.rest[1:]]
        imported(facts["enter"], app.Base(folder / "images").image(pathlib.Path(scratch) / "image.tar", name, files))
    return 0


def run(options):
    with tempfile.TemporaryDirectory(prefix="millstream-cluster.") as scratch:
        folder = pathlib.Path(scratch) / "run"
        with started(options, folder) as (environment, more):
            keeper.write(folder, environment, **more)
            return subprocess.run(options.command, env={**os.environ, **environment}, check=False).returncode


def prepare(_):
    print(programs.home())
    return 0


def show(_):
    for folder in keeper.runs(RUNS):
        print(folder)
    return 0


def main(arguments):
    command = []
    passed_on = arguments[:1] in (["kubectl"], ["helm"], ["node"])
    if not passed_on and "--" in arguments:
        at = arguments.index("--")
        arguments, command = arguments[:at], arguments[at + 1:]
    if passed_on:
        options = argparse.Namespace(verb=arguments[0], rest=arguments[1:], command=[])
    else:
        parser = argparse.ArgumentParser(prog="./dev cluster", usage=__doc__, add_help=False)
        parser.add_argument("verb", choices=["up", "down", "run", "list", "prepare", "keep", "load", "image", "shell"])
        parser.add_argument("--scheduler", action="store_true")
        parser.add_argument("--kafka", action="store_true")
        parser.add_argument("--folder")
        parser.add_argument("rest", nargs="*", help=argparse.SUPPRESS)
        options = parser.parse_intermixed_args(arguments)
        options.command = command
        if (options.verb == "run") != bool(command):
            parser.error("`run` takes a command after --, the others take none")
        if options.verb in ("up", "run", "keep") and options.rest not in ([], ["node"]):
            parser.error(f"`{options.verb}` takes `node` or nothing, not {' '.join(options.rest)}")
        if options.kafka and options.rest != ["node"]:
            parser.error("`--kafka` is for pods: up node --kafka")
    verbs = {"up": up, "down": down, "run": run, "list": show, "prepare": prepare, "keep": keep, "kubectl": client, "helm": client, "node": inside,
             "load": load, "image": image, "shell": shell}
    try:
        return verbs[options.verb](options)
    except (programs.Unavailable, control_plane.ClusterFailed, namespaces.NoRoom) as error:
        print(f"cluster: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
