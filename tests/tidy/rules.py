"""One function per rule: takes a Tree, yields Findings. RULES at the end is the list that tidy.py runs."""
import os
import re
import subprocess
import sys
from pathlib import Path, PurePosixPath

from layers import FREE, MAY_INCLUDE, OWNERS, TEST_LIBRARIES, layer_of, library_of, reachable
from tree import Finding

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools" / "docs"))
import errors as error_table  # noqa: E402

# This folder speaks about marks, hosts and paths in order to forbid them.
OWN_FOLDER = "tests/tidy/"


def dependency_direction(tree):
    """Folders include only folders below them (layers.py, MAY_INCLUDE)."""
    for file in tree.files:
        if not file.is_cpp:
            continue
        layer = layer_of(file.folder)
        if layer is None:
            yield Finding(file.path, 1, f"the folder {file.folder} is in no line of MAY_INCLUDE in tests/tidy/layers.py; add it")
            continue
        allowed = MAY_INCLUDE[layer]
        for number, bracket, path in file.includes:
            if bracket != '"' or library_of(bracket, path) or "/" not in path or path.startswith("generated/"):
                continue
            other = layer_of(str(PurePosixPath(path).parent))
            if other is None or other == layer or allowed is None or other in allowed:
                continue
            if file.is_for_tests and layer not in reachable(other):
                continue
            yield Finding(file.path, number, f"{layer} must not include {other} ({path}); it may include {', '.join(allowed) or 'nothing'}")


def include_paths(tree):
    """Quoted includes are whole paths from the root and exist."""
    for file in tree.files:
        if not file.is_cpp:
            continue
        for number, bracket, path in file.includes:
            if bracket != '"' or library_of(bracket, path) or path.startswith("generated/") or path.split("/")[0] in FREE:
                continue
            if path not in tree.by_path:
                yield Finding(file.path, number, f'there is no "{path}"; include our headers by their path from the root')


def library_owners(tree):
    """Third-party headers are included only by the folders that own the library (layers.py, OWNERS)."""
    for file in tree.files:
        if not file.is_cpp:
            continue
        layer = layer_of(file.folder)
        for number, bracket, path in file.includes:
            library = library_of(bracket, path)
            if library is None:
                continue
            if library in TEST_LIBRARIES:
                if not file.is_for_tests:
                    yield Finding(file.path, number, f"{library} is for tests only (files named *_test.cc, *_testing.h, folders testing/, tests/, bench/)")
            elif library not in OWNERS:
                yield Finding(file.path, number, f"{library} is in no line of OWNERS in tests/tidy/layers.py; add who owns it")
            elif layer not in OWNERS[library] and not file.is_for_tests:
                yield Finding(file.path, number, f"{library} belongs to {', '.join(OWNERS[library])}; go through an interface of theirs")


def library_leaks(tree):
    """No header of ours leads a folder to a third-party header that it does not own."""
    def reached(path, seen):
        """library -> the header of ours that includes it, over all quoted includes of `path`."""
        file = tree.by_path.get(path)
        if file is None or path in seen:
            return {}
        seen.add(path)
        found = {}
        for _, bracket, include in file.includes:
            library = library_of(bracket, include)
            if library in OWNERS:
                found.setdefault(library, path)
            elif library is None:
                found.update({name: where for name, where in reached(include, seen).items() if name not in found})
        return found

    for file in tree.files:
        if not file.is_cpp or file.is_for_tests:
            continue
        layer = layer_of(file.folder)
        for number, bracket, include in file.includes:
            if bracket != '"' or library_of(bracket, include):
                continue
            for library, where in reached(include, set()).items():
                if layer not in OWNERS[library] and layer_of(str(PurePosixPath(where).parent)) != layer:
                    yield Finding(file.path, number, f"{include} leads to {library} (included by {where}); hide it in a .cc file")


SIZES = {".h": (200, 400), ".cc": (500, 800), ".py": (500, 800), ".sh": (300, 500)}


def file_size(tree):
    """Headers aim at 200 lines and end at 400, sources at 500 and 800."""
    for file in tree.files:
        aim, limit = SIZES.get(PurePosixPath(file.path).suffix, (None, None))
        if aim is None or len(file.lines) <= aim:
            continue
        if len(file.lines) > limit:
            yield Finding(file.path, len(file.lines), f"{len(file.lines)} lines, the limit is {limit}: it wants to be two things")
        else:
            yield Finding(file.path, len(file.lines), f"{len(file.lines)} lines, aim at {aim}", warning=True)


def folder_readme(tree):
    """Every folder with C++ sources has a README.md; a folder testing/ is described by the folder it is in."""
    for folder in tree.folders((".cc", ".h")):
        if PurePosixPath(folder).name == "testing":
            continue
        readme = tree.by_path.get(f"{folder}/README.md")
        if readme is None:
            yield Finding(folder, 1, "the folder has no README.md (purpose, map of its files, the life of one record through it)")
        elif len(readme.lines) < 5:
            yield Finding(readme.path, 1, "says too little: purpose, map of its files, the life of one record through it")


def include_guard(tree):
    """Headers have the guard MILLSTREAM_<PATH>_H_."""
    for file in tree.files:
        if not file.is_header:
            continue
        guard = "MILLSTREAM_" + re.sub(r"[^A-Za-z0-9]", "_", file.path.removesuffix(".h")).upper() + "_H_"
        if f"#ifndef {guard}\n#define {guard}\n" not in file.text or not re.search(rf"#endif  // {guard}\n\Z", file.text):
            yield Finding(file.path, 1, f"the include guard must be {guard} (#ifndef, #define, and '#endif  // {guard}' at the end)")


MARKS = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b|\b(for now|not implemented|placeholder|stub(bed|s)?)\b", re.IGNORECASE)


def unfinished(tree):
    """Nothing in the sources is marked as unfinished."""
    for file in tree.files:
        if not file.is_source or file.path.startswith(OWN_FOLDER):
            continue
        for number, line in enumerate(file.lines, 1):
            match = MARKS.search(line)
            if match:
                yield Finding(file.path, number, f"'{match.group(0)}': finish it, or refuse the feature by name")


DISABLED = re.compile(r"\bDISABLED_\w+|pytest\.mark\.(skip|xfail)\b(?!if)|\bunittest\.(skip|expectedFailure)\b(?!If)|GTEST_SKIP\(\)\s*;")


def disabled_tests(tree):
    """No test is switched off. One that cannot run everywhere says why (GTEST_SKIP() << reason, skipif) and fails in CI."""
    for file in tree.files:
        if not (file.is_cpp or file.is_python) or file.path.startswith(OWN_FOLDER):
            continue
        for number, line in enumerate(file.lines, 1):
            match = DISABLED.search(line)
            if match:
                yield Finding(file.path, number, f"'{match.group(0)}' switches a test off")


MACHINE_PATH = re.compile(r"(?<![\w.~$}/])/(root|home|work)(/|\b)(?![\w-])|(?<![\w.~$}/])/(root|home|work)/\w")


def machine_paths(tree):
    """No path of somebody's machine in the files."""
    for file in tree.files:
        if file.path.startswith(OWN_FOLDER):
            continue
        for number, line in enumerate(file.lines, 1):
            match = MACHINE_PATH.search(line)
            if match:
                yield Finding(file.path, number, f"'{match.group(0)}' is a path of one machine")


HOSTS = re.compile(r"\b(deb\.debian\.org|security\.debian\.org|archive\.ubuntu\.com|pypi\.org|files\.pythonhosted\.org|registry\.npmjs\.org"
                   r"|npmjs\.com|crates\.io|proxy\.golang\.org|sum\.golang\.org|repo1?\.maven\.(org|apache\.org))\b")


def registry_hosts(tree):
    """Packages come from whatever registry the machine is set up for: no registry host in the files."""
    for file in tree.files:
        # Cargo writes its default registry's name into Cargo.lock, whatever the machine puts in its place.
        if file.path.startswith(OWN_FOLDER) or file.name == "Cargo.lock":
            continue
        for number, line in enumerate(file.lines, 1):
            match = HOSTS.search(line)
            if match:
                yield Finding(file.path, number, f"'{match.group(0)}' names a registry host; use the ordinary client as the machine has it set up")


def scripts(tree):
    """Shell and Python files can be parsed."""
    for file in tree.files:
        if file.is_shell:
            result = subprocess.run(["bash", "-n"], input=file.text, text=True, stderr=subprocess.PIPE, check=False)
            if result.returncode != 0:
                yield Finding(file.path, 1, f"bash -n: {result.stderr.strip()}")
        elif file.is_python:
            try:
                compile(file.text, file.path, "exec")
            except SyntaxError as error:
                yield Finding(file.path, error.lineno or 1, f"Python: {error.msg}")


def compiled(tree):
    """Every .cc file is named in a CMakeLists.txt: nothing is written and never compiled, no test never run."""
    listed = {file.folder: file.text.replace("${CMAKE_CURRENT_SOURCE_DIR}/", "") for file in tree.files if file.name == "CMakeLists.txt"}
    for file in tree.files:
        if not file.path.endswith(".cc"):
            continue
        path, folder = file.name, file.folder
        while folder not in listed and folder not in ("", "."):
            path = f"{PurePosixPath(folder).name}/{path}"
            folder = folder.rpartition("/")[0]
        if not re.search(rf"(?<![\w./-]){re.escape(path)}(?![\w.-])", listed.get(folder, "")):
            yield Finding(file.path, 1, f"is not named in {folder + '/' if folder else ''}CMakeLists.txt, so it is never compiled")


LINK = re.compile(r"\]\(([^)\s#]+)(#[^)\s]*)?\)")


def links(tree):
    """Links between our documents lead somewhere."""
    folders = {parent.as_posix() for file in tree.files for parent in PurePosixPath(file.path).parents}
    for file in tree.files:
        if not file.path.endswith(".md"):
            continue
        for number, line in enumerate(file.lines, 1):
            for target, _ in LINK.findall(line):
                if re.match(r"[a-z]+:", target):
                    continue
                parts = []
                for part in (PurePosixPath(file.folder) / target).parts:
                    if part == ".." and parts:
                        parts.pop()
                    elif part not in (".", ".."):
                        parts.append(part)
                path = "/".join(parts)
                if path not in tree.by_path and path not in folders:
                    yield Finding(file.path, number, f"the link to {target} leads nowhere")


NAMED = re.compile(r"\[`([^`]+)`\]\(([^)\s#]+)\)")


NAMING_PAGES = ("docs/reference/features.md", "docs/reference/operator-conventions.md", "docs/internals/bad-input.md")
NOT_YET = "**not yet**"


def named_tests(tree):
    """Tests that the pages of features, conventions and bad input name are in the files they link to, and no row of features is without."""
    for page in filter(None, map(tree.by_path.get, NAMING_PAGES)):
        for number, line in enumerate(page.lines, 1):
            cells = line.split(" | ")
            if page.path == NAMING_PAGES[0] and len(cells) > 3 and cells[2] != "shown by" and "](" not in cells[2] and NOT_YET not in line:
                yield Finding(page.path, number, f"nothing shows {cells[0].lstrip('| ')}: name a test or an example, or say {NOT_YET}")
            for name, target in NAMED.findall(line):
                path = os.path.normpath(f"{page.folder}/{target}")
                file = tree.by_path.get(path)
                if file is not None and name != file.name and not re.search(rf"\b{re.escape(name)}\b", file.text):
                    yield Finding(page.path, number, f"there is no {name} in {path}: name the test that shows it")


def protocol_errors(tree):
    """What is made of the table of protocol errors (sidecar/protocol/errors.json) is current."""
    if error_table.SOURCE not in tree.by_path:
        return
    for path, problem in error_table.stale(lambda path: tree.by_path[path].text if path in tree.by_path else None):
        yield Finding(path, 1, problem)


DEFINITION = "crds/streamprocessors.yaml"
COPIES = {"helm/millstream/files/streamprocessors.yaml": None, "install/millstream.yaml": r"(?<=  name: streamprocessors\.millstream\.dev\n)  labels:\n(?:    .*\n)+"}


def copied_definition(tree):
    """The chart and the plain YAML have the resource definition of crds/, word for word."""
    source = tree.by_path.get(DEFINITION)
    for path, added in COPIES.items() if source else ():
        copy = tree.by_path.get(path)
        if copy is None or source.text not in (re.sub(added, "", copy.text) if added else copy.text):
            yield Finding(path, 1, f"does not have {DEFINITION} as it is: run tools/helm/make.py")


RULES = [dependency_direction, include_paths, library_owners, library_leaks, file_size, folder_readme, include_guard, unfinished,
         disabled_tests, machine_paths, registry_hosts, scripts, compiled, links, named_tests, protocol_errors, copied_definition]
