#!/usr/bin/env python3
"""Lays out the root filesystem of one image in a folder: programs with the libraries they load, Debian packages, certificates, a user; and what it
is made of, as an SPDX file and as dpkg's own records, where scanners look for them. No shell, no package manager.

rootfs.py IMAGE FOLDER [--programs FOLDER] [--copy WHAT=PATH]...

Used by build.py and, inside its build stages, by Dockerfile: both make the same image from recipes.py. Only Python's standard library; needs
dpkg, ldd and strip.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import dpkg  # noqa: E402
import recipes  # noqa: E402
import sbom  # noqa: E402

# Install packages; nothing that runs reads them.
INSTALLERS = {"dpkg", "debconf", "debconf-2.0", "debianutils", "perl-base", "install-info", "tar"}
COMMANDS = {"nodejs"}
LEFT_OUT = re.compile(r"^/usr/(share/(doc|man|info|lintian|locale|bug|doc-base|applications|pixmaps|icons)|include|lib/valgrind)/|/__pycache__/|\.(a|la|pyc)$"
                      r"|^/usr/bin/(ldd|getconf|getent|iconv|locale|localedef|pldd|tzselect|zdump|catchsegv|pdb|pydoc|pygettext|py3.*)|^/(usr/)?sbin/|/gconv/")
MERGED = ("bin", "sbin", "lib", "lib64")
BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")


class CannotBuild(Exception):
    """Something the image needs is not on this machine; the message says what to do."""


def libraries(program):
    """Files that the loader would map, the loader among them; none for a static program."""
    done = subprocess.run(["ldd", str(program)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        if "not a dynamic executable" in done.stdout or "statically linked" in done.stdout:
            return []
        raise CannotBuild(f"ldd {program}: {done.stdout.strip()}")
    if missing := re.findall(r"(\S+) => not found", done.stdout):
        raise CannotBuild(f"{program} needs {', '.join(missing)}, which this machine has not")
    return sorted(set(re.findall(r"(/\S+) \(0x", done.stdout)))


class Rootfs:
    """The folder while it is filled. `packages` are the Debian packages that anything in it came from."""

    def __init__(self, folder, debian=None):
        self.folder = Path(folder)
        self.debian = debian or dpkg.Packages()
        self.packages = set()
        self.own = []  # paths in the image of what no Debian package has

    def place(self, path):
        """Where `path` of the image is in the folder, its parents made."""
        target = self.folder / dpkg.merged(path).lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        return target

    def write(self, path, text, mode=0o644):
        target = self.place(path)
        target.write_text(text, encoding="utf-8")
        target.chmod(mode)

    def link(self, path, to):
        target = self.place(path)
        if not os.path.lexists(target):
            target.symlink_to(to)

    def basis(self):
        """What every image has."""
        self.folder.mkdir(parents=True)
        self.folder.chmod(0o755)
        for name in MERGED:
            (self.folder / "usr" / name).mkdir(parents=True)
            (self.folder / name).symlink_to(f"usr/{name}")
        for name in ("app", "dev", "etc", "proc", "run", "sys", "tmp"):
            (self.folder / name).mkdir()
        (self.folder / "tmp").chmod(0o1777)
        self.write("/etc/passwd", f"root:x:0:0:root:/:/usr/sbin/nologin\nnonroot:x:{recipes.USER}:{recipes.USER}:nonroot:/tmp:/usr/sbin/nologin\n")
        self.write("/etc/group", f"root:x:0:\nnonroot:x:{recipes.USER}:\n")
        self.write("/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n")
        self.debian_file("/usr/lib/os-release")
        self.link("/etc/os-release", "../usr/lib/os-release")
        if not BUNDLE.exists():
            raise CannotBuild(f"there is no {BUNDLE}: apt-get install ca-certificates")
        shutil.copyfile(BUNDLE, self.place(BUNDLE))
        self.packages.add("ca-certificates")
        self.link("/usr/lib/ssl/cert.pem", str(BUNDLE))
        self.link("/usr/lib/ssl/certs", str(BUNDLE.parent))

    def debian_file(self, path, target=None):
        """A file of a Debian package; what it links to is copied."""
        owner = self.debian.owner(path)
        if owner is None:
            raise CannotBuild(f"{path} belongs to no Debian package, so nobody could say what is in the image; install it from one")
        self.packages.add(owner)
        destination = self.place(target or path)
        if not destination.exists():
            shutil.copy(path, destination)

    def program(self, path, target):
        """One of ours, without its debugging information; with the libraries it loads."""
        destination = self.place(target)
        shutil.copy(path, destination)
        stripped = subprocess.run(["strip", "--strip-unneeded", str(destination)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if stripped.returncode != 0:
            raise CannotBuild(f"strip {path}: {stripped.stdout.strip()}")
        destination.chmod(0o755)
        self.own.append(target)
        for library in libraries(path):
            self.debian_file(library)

    def command(self, name):
        """A program of a Debian package, with the libraries it loads."""
        path = shutil.which(name)
        if path is None:
            raise CannotBuild(f"there is no {name} on the PATH")
        self.debian_file(os.path.realpath(path), f"/usr/bin/{name}")
        for library in libraries(path):
            self.debian_file(library)

    def package(self, name):
        """All files of a package that something running may read; links stay links."""
        self.packages.add(name)
        for path in self.debian.files(name):
            if LEFT_OUT.search(str(path)):
                continue
            target = self.place(path)
            if os.path.lexists(target):
                continue
            if path.is_symlink():
                target.symlink_to(os.readlink(path))
            else:
                shutil.copy(path, target)

    def copy(self, source, path):
        """A folder or a file of ours."""
        target = self.place(path)
        if Path(source).is_dir():
            shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
        else:
            shutil.copy(source, target)
        self.own.append(path)

    def records(self, name):
        """The licences, dpkg's records in the form in which images without dpkg have them, and the SPDX file."""
        for package in sorted(self.packages):
            licence = Path("/usr/share/doc") / package / "copyright"
            if licence.is_file():
                shutil.copyfile(licence, self.place(licence))
            facts = self.debian.installed[package]
            fields = {"Package": package, "Status": "install ok installed", "Architecture": facts["Architecture"], "Version": facts["Version"],
                      "Source": f"{facts['source:Package']} ({facts['source:Version']})", "Maintainer": facts["Maintainer"]}
            self.write(f"/var/lib/dpkg/status.d/{package}", "".join(f"{field}: {value}\n" for field, value in fields.items()))
        if (recipes.ROOT / "LICENSE").is_file():
            shutil.copyfile(recipes.ROOT / "LICENSE", self.place("/usr/share/doc/millstream/copyright"))
        self.write(f"/usr/share/sbom/{name}.spdx.json", sbom.text(name, self))


def lay_out(name, folder, programs, copies):
    """The filesystem of recipes.RECIPES[name]. programs: the folder of our built programs; copies: {what the recipe calls it: path}. An image with a
    base holds only what it adds."""
    recipe = recipes.RECIPES[name]
    rootfs = Rootfs(folder)
    if recipe.base:
        rootfs.folder.mkdir(parents=True)
        rootfs.folder.chmod(0o755)
    else:
        rootfs.basis()
    for program in recipe.programs:
        if not (Path(programs) / program).exists():
            raise CannotBuild(f"there is no {Path(programs) / program}: ./dev build {program}")
        rootfs.program(Path(programs) / program, f"/usr/bin/{program}")
    for command in recipe.commands:
        rootfs.command(command)
    try:
        packages = rootfs.debian.closure(recipe.packages, INSTALLERS)
        # Of the commands, which are in the image already, they are only the data.
        extras = rootfs.debian.closure([each for each in recipe.extras if each in rootfs.debian.installed], INSTALLERS | COMMANDS)
    except LookupError as error:
        raise CannotBuild(str(error)) from error
    for package in [*packages, *extras]:
        rootfs.package(package)
    for what, path in recipe.copies:
        source = copies.get(what, recipes.ROOT / what)
        if not Path(source).exists():
            raise CannotBuild(f"image {name} needs {what}: name it with --copy {what}=PATH")
        rootfs.copy(source, path)
    rootfs.records(name)
    return rootfs


def main():
    parser = argparse.ArgumentParser(usage=__doc__, add_help=False)
    parser.add_argument("image", choices=recipes.RECIPES)
    parser.add_argument("folder")
    parser.add_argument("--programs", default=str(recipes.ROOT / "build" / "bin"))
    parser.add_argument("--copy", action="append", default=[])
    options = parser.parse_args()
    try:
        lay_out(options.image, options.folder, options.programs, dict(each.split("=", 1) for each in options.copy))
    except CannotBuild as error:
        sys.exit(f"rootfs.py: {error}")


if __name__ == "__main__":
    main()
