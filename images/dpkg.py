"""Debian packages of this machine: who owns a file, what a package has and needs. Reads dpkg's database; changes nothing."""

import functools
import os
import re
import subprocess
from pathlib import Path

INFO = Path("/var/lib/dpkg/info")
FIELDS = ("Package", "Version", "Architecture", "source:Package", "source:Version", "Maintainer", "Homepage", "Depends", "Pre-Depends", "db:Status-Abbrev")


def merged(path):
    """`path` as it is where /bin, /lib and the like are links into /usr (Debian 12 and later); dpkg may know a file by either name."""
    return re.sub(r"^/(bin|sbin|lib|lib32|lib64|libx32)(?=/|$)", r"/usr/\1", str(path))


class Packages:
    """What is installed. Not for a machine without dpkg."""

    @functools.cached_property
    def installed(self):
        """{name: {field: value}}"""
        listing = subprocess.run(["dpkg-query", "-W", "-f", "\\x1f".join(f"${{{field}}}" for field in FIELDS).replace("\\x1f", "\x1f") + "\x1e"],
                                 stdout=subprocess.PIPE, text=True, check=True).stdout
        records = (dict(zip(FIELDS, record.split("\x1f"))) for record in listing.split("\x1e") if record)
        return {record["Package"]: record for record in records if record["db:Status-Abbrev"].startswith("ii")}

    @functools.cached_property
    def _provides(self):
        """{virtual name: package}"""
        listing = subprocess.run(["dpkg-query", "-W", "-f", "${Package}\t${Provides}\n"], stdout=subprocess.PIPE, text=True, check=True).stdout
        found = {}
        for line in listing.splitlines():
            package, _, provided = line.partition("\t")
            for name in provided.split(","):
                if name.strip():
                    found.setdefault(name.split("(")[0].strip().split(":")[0], package)
        return found

    def _lists(self, name):
        return [path for path in (INFO / f"{name}.list", *INFO.glob(f"{name}:*.list")) if path.exists()]

    def files(self, name):
        """Paths of a package's files and links, not of its folders."""
        paths = [Path(line) for path in self._lists(name) for line in path.read_text(encoding="utf-8").splitlines()]
        return [path for path in paths if path.is_symlink() or path.is_file()]

    @functools.cached_property
    def _owners(self):
        owners = {}
        for path in INFO.glob("*.list"):
            name = path.name.removesuffix(".list").split(":")[0]
            for line in path.read_text(encoding="utf-8").splitlines():
                owners[merged(line)] = name
        return owners

    def owner(self, path):
        """The package that owns a file, or the file it leads to; None when nobody does."""
        folder, name = os.path.split(str(path))
        for candidate in (str(path), os.path.join(os.path.realpath(folder), name), os.path.realpath(path)):
            if (owner := self._owners.get(merged(candidate))):
                return owner
        return None

    def closure(self, names, without):
        """The packages, and what they depend on, and so on; of alternatives the one that is installed. `without` are not followed."""
        found, open_names = set(), list(names)
        while open_names:
            name = open_names.pop()
            name = name if name in self.installed else self._provides.get(name, name)
            if name in found or name in without:
                continue
            if name not in self.installed:
                raise LookupError(f"the Debian package {name} is not installed: apt-get install {name}")
            found.add(name)
            needs = ", ".join(filter(None, (self.installed[name]["Depends"], self.installed[name]["Pre-Depends"])))
            for group in filter(None, needs.split(",")):
                alternatives = [re.split(r"[ :(]", each.strip())[0] for each in group.split("|")]
                if any(each in without for each in alternatives):
                    continue
                open_names.append(next((each for each in alternatives if each in self.installed or each in self._provides), alternatives[0]))
        return sorted(found)
