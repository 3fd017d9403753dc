"""What is in each image: one Recipe per image, read by build.py (no registry), by the stages of Dockerfile and by the tests."""

import dataclasses
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
USER = 65532  # "nonroot" of distroless images, and what the operator's pods run as
PATH = "/usr/local/bin:/usr/bin"
SITE = "/usr/lib/millstream/python"  # Python packages of the image
APP = "/app"  # where an image on one of ours puts its program
# Headers that are compiled into our programs: Debian packages that no library in the image stands for.
HEADERS = ("libboost-dev", "libcli11-dev", "libmsgpack-cxx-dev", "libvalijson-dev", "nlohmann-json3-dev")


@dataclasses.dataclass(frozen=True)
class Recipe:
    """One image.

    programs    programs of our build, by name: stripped, with the libraries they load
    commands    programs of the machine, by name, with the libraries they load
    packages    Debian packages with what they depend on
    extras      Debian packages taken where they are installed, with what they depend on: data that a program reads if it is there
    copies      (what, where): folders and files; what "sdk:..." means is in build.py
    base        the image below
    """

    summary: str
    programs: tuple = ()
    commands: tuple = ()
    packages: tuple = ()
    extras: tuple = ()
    copies: tuple = ()
    entrypoint: tuple = ()
    environment: tuple = ()
    workdir: str = "/"
    base: str = ""


RECIPES = {
    "operator": Recipe("the Millstream operator", programs=("millstream-operator",), entrypoint=("/usr/bin/millstream-operator",)),
    "sidecar": Recipe("the Millstream sidecar, with the millstream command", programs=("millstream-sidecar", "millstream"),
                      entrypoint=("/usr/bin/millstream-sidecar",)),
    "static": Recipe("nothing but certificates, time zones and a user: for programs that need no library, such as Go's", extras=("tzdata",), workdir=APP),
    # dpkg and debconf are what its packages are installed with: not what they run with (rootfs.py leaves them out).
    "python": Recipe("Python with the Millstream SDK", packages=("python3-minimal", "libpython3-stdlib"), extras=("tzdata",), copies=(("sdk:python", SITE),),
                     entrypoint=("/usr/bin/python3",), environment=(f"PYTHONPATH={SITE}", "PYTHONUNBUFFERED=1", "PYTHONDONTWRITEBYTECODE=1"), workdir=APP),
    # Node.js looks for packages in node_modules of every folder above the program: the one of / is the image's, one in /app the program's own.
    # Debian's node reads these packages instead of the copies that other builds have inside.
    "typescript": Recipe("Node.js with the Millstream SDK", commands=("node",),
                         extras=("node-acorn", "node-busboy", "node-cjs-module-lexer", "node-undici", "node-xtend"),
                         copies=(("sdk:typescript", "/node_modules/millstream"),), entrypoint=("/usr/bin/node",), environment=("NODE_ENV=production",), workdir=APP),
    "example-python": Recipe("examples/polyglot: legs.py", base="python", copies=(("examples/polyglot/legs.py", f"{APP}/legs.py"),),
                             entrypoint=("/usr/bin/python3", "legs.py")),
    "example-go": Recipe("examples/polyglot: routes", base="static", copies=(("built:routes", f"{APP}/routes"),), entrypoint=(f"{APP}/routes",)),
    "example-typescript": Recipe("examples/polyglot: airports.ts", base="typescript",
                                 copies=(("built:airports.js", f"{APP}/airports.js"), ("built:package.json", f"{APP}/package.json")),
                                 entrypoint=("/usr/bin/node", "airports.js")),
}


def chain(name):
    """The images from the lowest base to `name`."""
    recipe = RECIPES[name]
    return [*(chain(recipe.base) if recipe.base else []), name]


def config(name):
    """(entry point, environment, working folder): an image has what its base has, unless it says otherwise."""
    entrypoint, environment, workdir = (), [f"PATH={PATH}"], "/"
    for each in chain(name):
        recipe = RECIPES[each]
        entrypoint = recipe.entrypoint or entrypoint
        environment += recipe.environment
        workdir = recipe.workdir if recipe.workdir != "/" else workdir
    return list(entrypoint), environment, workdir


def version():
    """Of the project, which is the tag of its images."""
    return re.search(r"project\(millstream VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text(encoding="utf-8"))[1]


def reference(name, registry="docker.io"):
    """The name an image is found by: docker.io/millstream/sidecar:0.1.0."""
    return f"{registry}/millstream/{name}:{version()}"
