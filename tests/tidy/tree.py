"""The files of a checkout, read once."""
import re
import subprocess
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath

INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]')


@dataclass(frozen=True)
class Finding:
    path: str
    line: int
    text: str
    warning: bool = False


@dataclass
class File:
    path: str  # relative to the root, with slashes
    text: str
    lines: list = field(init=False)

    def __post_init__(self):
        self.lines = self.text.splitlines()

    @property
    def folder(self):
        return str(PurePosixPath(self.path).parent)

    @property
    def name(self):
        return PurePosixPath(self.path).name

    @property
    def is_ours(self):
        """Not a program of somebody else's: what `millstream init` writes has its own root."""
        return not self.path.startswith("cli/templates/")

    @property
    def is_header(self):
        return self.path.endswith(".h") and self.is_ours

    @property
    def is_cpp(self):
        return self.path.endswith((".h", ".cc")) and self.is_ours

    @property
    def is_python(self):
        return self.path.endswith(".py") or self.text.startswith("#!/usr/bin/env python3")

    @property
    def is_shell(self):
        return self.path.endswith(".sh") or re.match(r"#!.*\b(ba)?sh\b", self.text) is not None

    @property
    def is_cmake(self):
        return self.name == "CMakeLists.txt" or self.path.endswith(".cmake")

    @property
    def is_source(self):
        return self.is_cpp or self.is_python or self.is_shell or self.is_cmake

    @property
    def is_for_tests(self):
        """Tests and what only tests use: they may look anywhere that does not look back at them."""
        return (re.search(r"(_test|_tests|_bench|_fuzz|_contract|_testing|_test_util)\.(cc|h)$", self.name) is not None
                or re.match(r"(test_|fake_)", self.name) is not None
                or "/testing/" in self.path or self.path.startswith(("tests/", "bench/")))

    @cached_property
    def includes(self):
        """[(line, '<' or '"', path)]"""
        found = []
        for number, line in enumerate(self.lines, 1):
            match = INCLUDE.match(line)
            if match:
                found.append((number, match.group(1), match.group(2)))
        return found


class Tree:
    def __init__(self, files):
        self.files = sorted(files, key=lambda file: file.path)
        self.by_path = {file.path: file for file in self.files}

    @classmethod
    def of_checkout(cls, root):
        listed = subprocess.run(
            ["git", "-c", "safe.directory=*", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            check=False, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        if listed.returncode == 0:
            paths = {path for path in listed.stdout.decode().split("\0") if path}
        else:  # an archive without .git
            paths = {path.relative_to(root).as_posix() for path in Path(root).rglob("*")}
            paths = {path for path in paths if not path.startswith("build/") and "__pycache__" not in path}
        files = []
        for path in sorted(paths):
            full = Path(root) / path
            if not full.is_file() or full.is_symlink():
                continue
            try:
                files.append(File(path, full.read_bytes().decode("utf-8")))
            except UnicodeDecodeError:
                continue  # binary: golden frames, fuzz seeds
        return cls(files)

    def folders(self, suffixes):
        return sorted({file.folder for file in self.files if file.path.endswith(suffixes)})
