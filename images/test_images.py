"""What must hold of every image: it runs alone, as nobody, without a shell; it says what is in it; both recipes say the same. Small ones are made of
programs of the machine; the operator's and the sidecar's of the build, when there is one (MILLSTREAM_BUILD_DIR)."""

import gzip
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import archive  # noqa: E402
import build  # noqa: E402
import dpkg  # noqa: E402
import recipes  # noqa: E402
import rootfs  # noqa: E402

PROGRAMS = Path(os.environ.get("MILLSTREAM_BUILD_DIR") or recipes.ROOT / "build") / "bin"
# What `docker pull` moves; the limit of the sidecar is the product's promise, the others keep growth from passing unseen.
MEGABYTES = {"operator": 30, "sidecar": 60, "static": 5, "python": 40, "typescript": 80}
SHELLS = {"sh", "bash", "dash", "busybox", "perl", "apt", "apt-get", "dpkg"}
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="chroot needs root")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """(folder, report) of the images that need nothing but the build."""
    folder = tmp_path_factory.mktemp("images")
    return folder, build.build(["operator", "sidecar", "static"], folder, PROGRAMS)


class Archive:
    """An OCI archive, read by the book: every digest and size is checked on the way. Archives are read once."""

    read_already = {}

    def __new__(cls, path):
        if path not in cls.read_already:
            made = super().__new__(cls)
            made.load(path)
            cls.read_already[path] = made
        return cls.read_already[path]

    def load(self, path):
        with tarfile.open(path) as tar:
            self.files = {member.name: tar.extractfile(member).read() for member in tar if member.isfile()}
        assert json.loads(self.files["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
        (self.entry,) = json.loads(self.files["index.json"])["manifests"]
        self.manifest = json.loads(self.blob(self.entry))
        self.config = json.loads(self.blob(self.manifest["config"]))
        self.layers = [gzip.decompress(self.blob(layer)) for layer in self.manifest["layers"]]
        assert self.config["rootfs"]["diff_ids"] == ["sha256:" + hashlib.sha256(layer).hexdigest() for layer in self.layers]

    def blob(self, descriptor):
        data = self.files["blobs/sha256/" + descriptor["digest"].removeprefix("sha256:")]
        assert "sha256:" + hashlib.sha256(data).hexdigest() == descriptor["digest"] and len(data) == descriptor["size"]
        return data

    def members(self):
        """{path: TarInfo}; an upper layer's file hides the lower one's."""
        return {member.name: member for layer in self.layers for member in tarfile.open(fileobj=io.BytesIO(layer))}

    def extract(self, folder):
        for layer in self.layers:
            with tarfile.open(fileobj=io.BytesIO(layer)) as tar:
                tar.extractall(folder)
        return Path(folder)

    def read(self, path):
        for layer in reversed(self.layers):
            with tarfile.open(fileobj=io.BytesIO(layer)) as tar:
                if path in tar.getnames():
                    return tar.extractfile(path).read()
        raise KeyError(path)


@pytest.mark.parametrize("name", ["operator", "sidecar", "static"])
def test_an_archive_is_whole_and_says_how_to_run(made, name):
    folder, report = made
    image = Archive(folder / f"{name}.tar")
    entrypoint, environment, workdir = recipes.config(name)
    run = image.config["config"]
    assert run.get("Entrypoint", []) == entrypoint and run["Env"] == environment and run["User"] == "65532:65532" and run.get("WorkingDir", "/") == workdir
    assert image.entry["annotations"]["io.containerd.image.name"] == recipes.reference(name) == f"docker.io/millstream/{name}:{recipes.version()}"
    assert image.entry["digest"] == report[name]["digest"]
    assert report[name]["compressed"] == sum(layer["size"] for layer in image.manifest["layers"]) <= MEGABYTES[name] * 1e6


@pytest.mark.parametrize("name", ["operator", "sidecar", "static"])
def test_no_shell_no_installer_nothing_for_root_only(made, name):
    members = Archive(made[0] / f"{name}.tar").members()
    assert not SHELLS & {Path(path).name for path, member in members.items() if not member.isdir()}
    assert all(member.uid == member.gid == 0 and member.mtime == 0 for member in members.values())
    unreadable = [path for path, member in members.items() if member.isfile() and not member.mode & 0o004]
    assert not unreadable
    assert not [path for path, member in members.items() if member.mode & 0o6000], "no program changes its user"
    assert members["tmp"].mode == 0o1777


@as_root
@pytest.mark.parametrize("name, command", [("operator", ["/usr/bin/millstream-operator", "--help"]), ("sidecar", ["/usr/bin/millstream-sidecar", "--help"]),
                                           ("sidecar", ["/usr/bin/millstream", "--version"])])
def test_programs_run_with_nothing_but_the_image(made, tmp_path, name, command):
    root = Archive(made[0] / f"{name}.tar").extract(tmp_path / "root")
    done = subprocess.run(["/usr/sbin/chroot", "--userspec=65532:65532", str(root), *command], capture_output=True, text=True, check=False, env={})
    assert done.returncode == 0 and done.stdout, done.stderr


def test_the_sidecar_finds_itself_on_the_path(made):
    """The operator's preStop hook is `millstream-sidecar drain`, without a folder."""
    image = Archive(made[0] / "sidecar.tar")
    folders = dict(each.split("=", 1) for each in image.config["config"]["Env"])["PATH"].split(":")
    assert any(f"{folder.lstrip('/')}/millstream-sidecar" in image.members() for folder in folders)
    assert not [path for path in image.members() if "kubectl" in path]


@pytest.mark.parametrize("name", ["operator", "sidecar", "static"])
def test_the_list_of_contents_is_whole(made, name):
    folder = made[0]
    image, debian = Archive(folder / f"{name}.tar"), dpkg.Packages()
    document = json.loads((folder / f"{name}.spdx.json").read_text(encoding="utf-8"))
    assert image.read(f"usr/share/sbom/{name}.spdx.json") == (folder / f"{name}.spdx.json").read_bytes()
    assert document["spdxVersion"] == "SPDX-2.3" and document["dataLicense"] == "CC0-1.0" and document["SPDXID"] == "SPDXRef-DOCUMENT"
    known = {package["SPDXID"] for package in document["packages"]}
    assert len(known) == len(document["packages"])
    assert all(re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", each) for each in known)
    for relation in document["relationships"]:
        assert {relation["spdxElementId"], relation["relatedSpdxElement"]} <= known | {"SPDXRef-DOCUMENT"}
    versions = {package["name"]: package["versionInfo"] for package in document["packages"]}
    members, whole = image.members(), str(document)
    for path, member in members.items():
        if not member.isfile() or path.startswith(("usr/share/sbom/", "usr/share/doc/", "var/lib/dpkg/", "etc/")):
            continue
        owner = debian.owner(f"/{path}")
        assert owner in versions if owner else f"/{path}" in whole, path
        if owner:
            assert versions[owner] == debian.installed[owner]["Version"]
            assert f"var/lib/dpkg/status.d/{owner}" in members and f"usr/share/doc/{owner}/copyright" in members
    if name == "sidecar":
        assert any(each.startswith("librdkafka") for each in versions) and any(each.startswith("librocksdb") for each in versions)


def test_the_same_input_gives_the_same_bytes(tmp_path):
    digests = {build.build(["static"], tmp_path / each, PROGRAMS)["static"]["digest"] for each in ("one", "two")}
    assert len(digests) == 1
    assert (tmp_path / "one" / "static.tar").read_bytes() == (tmp_path / "two" / "static.tar").read_bytes()


def test_an_upper_layer_adds_to_its_base(tmp_path):
    (tmp_path / "base" / "etc").mkdir(parents=True)
    (tmp_path / "base" / "etc" / "one").write_text("1", encoding="ascii")
    (tmp_path / "upper" / "app").mkdir(parents=True)
    (tmp_path / "upper" / "app" / "two").write_text("2", encoding="ascii")
    os.symlink("../app/two", tmp_path / "upper" / "link")
    layers = [archive.pack(tmp_path / each, tmp_path / f"{each}.layer") for each in ("base", "upper")]
    archive.write(tmp_path / "image.tar", "localhost/x:1", layers, entrypoint=["/app/two"], environment=["A=b"], workdir="/app", user="65532")
    image = Archive(tmp_path / "image.tar")
    assert {"etc/one", "app/two", "link"} <= set(image.members()) and image.members()["link"].linkname == "../app/two"
    assert image.read("app/two") == b"2" and not (tmp_path / "image.tar.part").exists()


def test_a_file_of_nobody_ends_the_build(tmp_path):
    (tmp_path / "stranger.so").write_bytes(b"")
    made = rootfs.Rootfs(tmp_path / "root")
    with pytest.raises(rootfs.CannotBuild, match="belongs to no Debian package"):
        made.debian_file(tmp_path / "stranger.so")


def test_a_missing_program_is_named(tmp_path):
    with pytest.raises(rootfs.CannotBuild, match="millstream-operator: ./dev build millstream-operator"):
        rootfs.lay_out("operator", tmp_path / "root", tmp_path, {})


def stages():
    """{stage: [instruction]} of Dockerfile."""
    found, current = {}, None
    text = (HERE / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    for line in text.splitlines():
        if match := re.match(r"FROM .* AS (\S+)", line):
            current = found.setdefault(match[1], [])
        elif current is not None and line and not line.startswith("#"):
            current.append(line)
    return found


@pytest.mark.parametrize("name", [name for name, recipe in recipes.RECIPES.items() if not recipe.base])
def test_the_dockerfile_says_the_same(name):
    entrypoint, environment, workdir = recipes.config(name)
    lines = stages()[name]
    assert [line.removeprefix("ENV ") for line in lines if line.startswith("ENV ")] == environment
    assert [json.loads(line.removeprefix("ENTRYPOINT ")) for line in lines if line.startswith("ENTRYPOINT ")] == ([entrypoint] if entrypoint else [])
    assert ([line.split()[1] for line in lines if line.startswith("WORKDIR ")] or ["/"]) == [workdir]
    assert f"USER {recipes.USER}:{recipes.USER}" in lines


@pytest.mark.parametrize("language, base", [("python", "python"), ("go", "static"), ("typescript", "typescript")])
def test_the_examples_say_the_same(language, base):
    text = (HERE / "examples" / f"{language}.Dockerfile").read_text(encoding="utf-8")
    assert f"\nFROM {recipes.reference(base)}\n" in text
    assert recipes.RECIPES[f"example-{language}"].base == base
    assert json.loads(re.search(r"^ENTRYPOINT (.*)$", text, re.MULTILINE)[1]) == recipes.config(f"example-{language}")[0]


def test_the_user_is_the_one_of_the_pods():
    source = (recipes.ROOT / "operator" / "model" / "pod_template.cc").read_text(encoding="utf-8")
    assert f"kUser = {recipes.USER};" in source


def test_the_chart_names_these_images():
    chart = (recipes.ROOT / "helm" / "millstream" / "Chart.yaml").read_text(encoding="utf-8")
    for name in ("operator", "sidecar"):
        assert f"image: millstream/{name}:{recipes.version()}" in chart


@as_root
@pytest.mark.parametrize("name, command", [
    ("example-python", ["/usr/bin/python3", "-c", "import millstream, msgpack, ssl, sqlite3, zoneinfo; zoneinfo.ZoneInfo('Europe/Berlin'); print(millstream.App)"]),
    ("example-typescript", ["/usr/bin/node", "--input-type=module", "-e", "import { App } from 'millstream'; console.log(App.name)"])])
def test_the_sdk_is_found_in_a_base_image(tmp_path, name, command):
    if name == "example-typescript" and "MILLSTREAM_TYPESCRIPT" not in os.environ:
        pytest.skip("MILLSTREAM_TYPESCRIPT names no built copy of sdk/typescript (./dev test images does)")
    report = build.build([name], tmp_path, PROGRAMS)
    base = recipes.RECIPES[name].base
    assert report[name]["compressed"] <= MEGABYTES[base] * 1e6
    image = Archive(tmp_path / f"{name}.tar")
    assert not SHELLS & {Path(path).name for path, member in image.members().items() if not member.isdir()}
    root = image.extract(tmp_path / "root")
    environment = dict(each.split("=", 1) for each in image.config["config"]["Env"])
    done = subprocess.run(["/usr/sbin/chroot", "--userspec=65532:65532", str(root), *command], capture_output=True, text=True, check=False, env=environment, cwd="/")
    assert done.returncode == 0 and done.stdout.strip(), done.stderr
    name_of_program = recipes.config(name)[0][-1]
    assert f"app/{name_of_program}" in image.members()


def test_a_go_program_needs_nothing(tmp_path):
    if rootfs.shutil.which("go") is None:
        pytest.skip("there is no go (./dev test images brings one)")
    build.build(["example-go"], tmp_path, PROGRAMS)
    root = Archive(tmp_path / "example-go.tar").extract(tmp_path / "root")
    assert rootfs.libraries(root / "app" / "routes") == []
    assert os.access(root / "app" / "routes", os.X_OK)
