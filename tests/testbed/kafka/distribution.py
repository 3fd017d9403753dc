"""Kafka itself: the jars of pom.xml in the cache folder, a formatted storage folder to copy, and how a broker's JVM is started."""

import contextlib
import fcntl
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "millstream" / "kafka"
COPY_DEPENDENCIES = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
CLUSTER_ID = "bWlsbHN0cmVhbS10ZXN0MQ"

# Brokers live for seconds and share two cores with what is tested: the cheap compiler and collector, small memory, no agents.
JVM = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xms64m", "-XX:MaxMetaspaceSize=160m", "-XX:-UsePerfData", "-Djava.awt.headless=true",
       "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dorg.slf4j.simpleLogger.showDateTime=true",
       "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS"]


class Unavailable(Exception):
    """A broker cannot be had here; the message says why and what to do."""


@contextlib.contextmanager
def locked(path):
    """One process makes what is missing, others wait for it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def call(command, what, **options):
    done = subprocess.run([str(part) for part in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False, **options)
    if done.returncode != 0:
        raise Unavailable(f"{what} failed (exit code {done.returncode}):\n{done.stdout[-3000:]}")
    return done.stdout


def home():
    """The folder of this version: libs/ and formatted/; made on first use, two minutes with an empty Maven repository."""
    java, mvn = shutil.which("java"), shutil.which("mvn")
    if not java:
        raise Unavailable("no java found; `./dev test` installs it (tools/packages: default-jre-headless)")
    version = subprocess.run([java, "-version"], capture_output=True, check=False).stderr
    key = hashlib.sha256((HERE / "pom.xml").read_bytes() + version + " ".join(JVM).encode()).hexdigest()[:12]
    folder = CACHE / f"4.4.0-{key}"
    if (folder / ".complete").exists():
        return folder
    with locked(CACHE / f"4.4.0-{key}.lock"):
        if (folder / ".complete").exists():
            return folder
        if not mvn:
            raise Unavailable("no mvn found; `./dev test` installs it (tools/packages: maven)")
        print("==> fetching Kafka 4.4.0 from Maven Central (once, 120 MB)", file=sys.stderr, flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        call([mvn, "-q", "-B", "-f", HERE / "pom.xml", COPY_DEPENDENCIES, f"-DoutputDirectory={folder / 'libs'}"], "mvn: fetching Kafka")
        format_storage(java, folder)
        (folder / ".complete").touch()
    return folder


def format_storage(java, folder):
    """`kafka-storage format` once: what it writes depends on no broker but for the node id, and costs a JVM start each time."""
    with tempfile.TemporaryDirectory(prefix="millstream-kafka.") as scratch:
        properties = pathlib.Path(scratch) / "server.properties"
        properties.write_text(f"process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@127.0.0.1:1\nlisteners=PLAINTEXT://127.0.0.1:2,"
                              f"CONTROLLER://127.0.0.1:1\ncontroller.listener.names=CONTROLLER\nlog.dirs={scratch}/data\n", encoding="ascii")
        call([java, *JVM, "-cp", f"{folder}/libs/*", "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", properties],
             "kafka-storage format")
        shutil.copytree(pathlib.Path(scratch) / "data", folder / "formatted")


def copy_formatted(kafka, target, node):
    """A storage folder for node number `node`."""
    shutil.copytree(kafka / "formatted", target)
    meta = target / "meta.properties"
    lines = [line for line in meta.read_text(encoding="ascii").splitlines() if not line.startswith(("#", "node.id", "directory.id"))]
    directory = hashlib.sha256(f"millstream {node}".encode()).hexdigest()[:22]
    meta.write_text("\n".join([*lines, f"node.id={node}", f"directory.id={directory}"]) + "\n", encoding="ascii")


def archive(kafka):
    return kafka / "classes.jsa"


def use_archive(kafka):
    """JVM options for the archive of loaded classes; a JVM that cannot use it starts without."""
    return [f"-XX:SharedArchiveFile={archive(kafka)}", "-Xshare:auto", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"] if archive(kafka).exists() else []


def java_command(kafka, heap_mb, main, *arguments, jvm=()):
    return ["java", *JVM, f"-Xmx{heap_mb}m", *jvm, "-cp", f"{kafka}/libs/*", main, *map(str, arguments)]


def tool(main, *arguments, timeout=60):
    """Runs one of Kafka's own command-line tools by its class and returns what it printed."""
    kafka = home()
    return call(java_command(kafka, 128, main, *arguments, jvm=use_archive(kafka)), main, timeout=timeout)
