#!/usr/bin/env python3
"""Makes the images without docker and without a registry, from the programs of this checkout and the packages of this machine:

build.py [IMAGE..] [--out FOLDER] [--programs FOLDER] [--json]

Writes FOLDER/IMAGE.tar (an OCI archive) and FOLDER/IMAGE.spdx.json, and prints what each weighs. IMAGE: one of recipes.py; default: all.
The images python and example-python need pip, typescript and example-typescript a built copy of sdk/typescript named in MILLSTREAM_TYPESCRIPT,
example-go and example-typescript Go: ./dev images brings all that.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import archive  # noqa: E402
import recipes  # noqa: E402
import rootfs  # noqa: E402

POLYGLOT = recipes.ROOT / "examples" / "polyglot"


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options)
    if done.returncode != 0:
        raise rootfs.CannotBuild(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout[-3000:]}")


class Sources:
    """What recipes call "sdk:..." and "built:...", made when it is first asked for, in a scratch folder."""

    def __init__(self, scratch):
        self.scratch = Path(scratch)

    def paths(self, recipe):
        return {what: self.path(what) for what, _ in recipe.copies if ":" in what}

    def path(self, what):
        kind, name = what.split(":", 1)
        if what == "sdk:python":
            return self._python()
        if what == "sdk:typescript":
            return self._typescript()
        if kind == "built":
            return self._polyglot() / name
        raise rootfs.CannotBuild(f"recipes.py names {what}, which nothing makes")

    def _python(self):
        """The SDK and what it depends on. From a copy: setuptools writes into the folder it builds from."""
        target = self.scratch / "python"
        if not target.exists():
            source = self.scratch / "python-source"
            shutil.copytree(recipes.ROOT / "sdk" / "python", source, ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info"))
            # The machine's python: what is in the image, so that compiled parts are for it.
            run("/usr/bin/python3", "-m", "venv", self.scratch / "venv")
            run(self.scratch / "venv" / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile", "--target", target, source)
            shutil.rmtree(target / "bin", ignore_errors=True)
        return target

    def _typescript(self):
        target = self.scratch / "typescript"
        if not target.exists():
            source = Path(os.environ.get("MILLSTREAM_TYPESCRIPT", recipes.ROOT / "sdk" / "typescript"))
            if not (source / "dist" / "src" / "index.js").exists():
                raise rootfs.CannotBuild(f"{source} is not built: ./dev images builds it")
            target.mkdir()
            shutil.copy(source / "package.json", target)
            shutil.copytree(source / "dist" / "src", target / "dist" / "src")
        return target

    def _polyglot(self):
        target = self.scratch / "polyglot"
        if not target.exists():
            run("bash", POLYGLOT / "build.sh", target, env={**os.environ, "CGO_ENABLED": "0"})
        return target


def build(names, out, programs):
    """{name: facts} of the named images, their archives in `out`. A layer shared by several is packed once."""
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    report, layers = {}, {}
    with tempfile.TemporaryDirectory(prefix="millstream-images.") as name:
        scratch = Path(name)
        sources = Sources(scratch)

        def layer(image):
            if image not in layers:
                folder = scratch / "rootfs" / image
                rootfs.lay_out(image, folder, programs, sources.paths(recipes.RECIPES[image]))
                layers[image] = archive.pack(folder, scratch / f"{image}.layer")
                shutil.copyfile(folder / "usr/share/sbom" / f"{image}.spdx.json", out / f"{image}.spdx.json")
                shutil.rmtree(folder)
            return layers[image]

        for image in names:
            entrypoint, environment, workdir = recipes.config(image)
            stack = [layer(each) for each in recipes.chain(image)]
            labels = {"org.opencontainers.image.title": image, "org.opencontainers.image.description": recipes.RECIPES[image].summary,
                      "org.opencontainers.image.version": recipes.version(), "org.opencontainers.image.licenses": "Apache-2.0"}
            digest = archive.write(out / f"{image}.tar", recipes.reference(image), stack, entrypoint=entrypoint, environment=environment, workdir=workdir,
                                   user=f"{recipes.USER}:{recipes.USER}", labels=labels)
            report[image] = {"reference": recipes.reference(image), "digest": digest, "archive": str(out / f"{image}.tar"),
                             "compressed": sum(each.size for each in stack), "unpacked": sum(each.unpacked_size for each in stack)}
    return report


def main():
    parser = argparse.ArgumentParser(usage=__doc__, add_help=False)
    parser.add_argument("images", nargs="*")
    build_folder = Path(os.environ.get("MILLSTREAM_BUILD_DIR") or recipes.ROOT / "build")
    parser.add_argument("--out", default=str(build_folder / "images"))
    parser.add_argument("--programs", default=str(build_folder / "bin"))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    for image in options.images:
        if image not in recipes.RECIPES:
            parser.error(f"there is no image {image}; there are {', '.join(recipes.RECIPES)}")
    try:
        report = build(options.images or list(recipes.RECIPES), options.out, options.programs)
    except rootfs.CannotBuild as error:
        sys.exit(f"build.py: {error}")
    if options.json:
        print(json.dumps(report, indent=1))
        return
    print(f"{'image':20} {'compressed':>12} {'unpacked':>12}")
    for image, facts in report.items():
        print(f"{image:20} {facts['compressed'] / 1e6:9.1f} MB {facts['unpacked'] / 1e6:9.1f} MB")


if __name__ == "__main__":
    main()
