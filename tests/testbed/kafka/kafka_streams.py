"""Kafka Streams: its jars (streams-pom.xml) and programs on it, compiled once and kept in the cache folder."""

import hashlib
import shutil
import subprocess

import distribution

POM = distribution.HERE / "streams-pom.xml"


def made(folder, programs, make):
    """The folder, made by make() if it is not complete yet; another process may be making it."""
    if not (folder / ".complete").exists():
        with distribution.locked(folder.with_name(folder.name + ".lock")):
            if not (folder / ".complete").exists():
                for program in programs:
                    if not shutil.which(program):
                        raise distribution.Unavailable(f"no {program} found; `./dev test` and `./dev bench kafka` install it (tools/packages)")
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir(parents=True)
                make()
                (folder / ".complete").touch()
    return folder


def libraries():
    """The folder with the jars; 80 MB from Maven Central on first use."""
    folder = distribution.CACHE / f"streams-{hashlib.sha256(POM.read_bytes()).hexdigest()[:12]}"
    return made(folder, ["mvn"], lambda: distribution.call(
        ["mvn", "-q", "-B", "-f", POM, distribution.COPY_DEPENDENCIES, f"-DoutputDirectory={folder}"], "mvn: fetching Kafka Streams"))


def classpath(source):
    """For running the program of this source file: the jars and its classes."""
    if not shutil.which("java"):
        raise distribution.Unavailable("no java found; `./dev test` and `./dev bench kafka` install it (tools/packages)")
    jars = libraries()
    version = subprocess.run(["java", "-version"], capture_output=True, check=False).stderr
    classes = jars.with_name(f"{jars.name}-{source.stem}-{hashlib.sha256(source.read_bytes() + version).hexdigest()[:12]}")
    made(classes, ["javac"], lambda: distribution.call(["javac", "-cp", f"{jars}/*", "-d", classes, source], "javac"))
    return f"{jars}/*:{classes}"
