"""Images of programs on one of our bases, made in a moment: what a Dockerfile of two lines would make (examples/python.Dockerfile), for test beds
and tutorials. The layers of the base are made once, in a folder."""

import dataclasses
import json
import shutil
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import archive  # noqa: E402
import build  # noqa: E402
import recipes  # noqa: E402
import rootfs  # noqa: E402


def full_name(name):
    """words:1 as container runtimes mean it: docker.io/library/words:1."""
    first = name.split("/")[0]
    if "/" not in name:
        return f"docker.io/library/{name}"
    return name if "." in first or ":" in first or first == "localhost" else f"docker.io/{name}"


class Base:
    """The layers of the image `name` of recipes.py, in `folder`; made there unless they are there. Not safe for two makers at once."""

    def __init__(self, folder, name="python", programs=None):
        self.folder, self.name = Path(folder), name
        facts = self.folder / f"{name}.json"
        if not facts.exists():
            self._make(facts, programs)
        self.layers = [archive.Layer(**{**each, "path": Path(each["path"])}) for each in json.loads(facts.read_text(encoding="utf-8"))]

    def _make(self, facts, programs):
        self.folder.mkdir(parents=True, exist_ok=True)
        found = []
        with tempfile.TemporaryDirectory(prefix="millstream-base.") as scratch:
            sources = build.Sources(scratch)
            for each in recipes.chain(self.name):
                root = Path(scratch) / "rootfs" / each
                rootfs.lay_out(each, root, programs, sources.paths(recipes.RECIPES[each]))
                found.append(archive.pack(root, self.folder / f"{each}.layer", level=1))
        facts.write_text(json.dumps([{**dataclasses.asdict(each), "path": str(each.path)} for each in found]), encoding="utf-8")

    def image(self, path, name, files, entrypoint=None):
        """Writes the archive of an image with `files` in /app. entrypoint: None: the base's, with the first file as its argument."""
        start, environment, workdir = recipes.config(self.name)
        with tempfile.TemporaryDirectory(prefix="millstream-app.") as scratch:
            root = Path(scratch) / "root"
            (root / recipes.APP.lstrip("/")).mkdir(parents=True)
            for folder in (root, root / recipes.APP.lstrip("/")):
                folder.chmod(0o755)
            for file in files:
                target = root / recipes.APP.lstrip("/") / Path(file).name
                shutil.copy(file, target)
                target.chmod(0o755)
            layer = archive.pack(root, Path(scratch) / "layer")
            command = entrypoint or [*start, Path(files[0]).name]
            archive.write(path, full_name(name), [*self.layers, layer], entrypoint=command, environment=environment, workdir=workdir,
                          user=f"{recipes.USER}:{recipes.USER}")
        return path
