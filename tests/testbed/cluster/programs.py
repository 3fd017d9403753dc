"""The programs of a cluster: Kubernetes 1.34.3 as one binary, etcd and helm, built from their Go modules (programs/) into the cache folder.

The modules are pinned by go.mod and go.sum. The first build takes ten minutes on two cores (Kubernetes seven, helm two, etcd one);
afterwards the folder is only looked up. Needs Go 1.26 on the PATH: tools/dev/go.sh puts it there.
"""

import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "kafka"))
from distribution import Unavailable, locked  # noqa: E402

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "millstream"
KUBERNETES = "1.34.3"
BUILD_DATE = "2025-12-09T00:00:00Z"
# What the one binary does by the name it is started as.
NAMES = ["kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "kube-dns", "kube-localpv", "kubectl"]


def linker_flags():
    major, minor, _ = KUBERNETES.split(".")
    version = "k8s.io/component-base/version"
    facts = {f"{version}.gitVersion": f"v{KUBERNETES}", f"{version}.gitMajor": major, f"{version}.gitMinor": minor, f"{version}.gitTreeState": "clean",
             f"{version}.buildDate": BUILD_DATE, "k8s.io/client-go/pkg/version.gitVersion": f"v{KUBERNETES}"}
    return "-s -w " + " ".join(f"-X {name}={value}" for name, value in facts.items())


def helm_linker_flags():
    """Without these `helm template` takes charts to be for Kubernetes 1.20."""
    major, minor, _ = KUBERNETES.split(".")
    return f"-s -w -X helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor={major} -X helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor={minor}"


BUILDS = [  # program, module below programs/, package, linker flags
    ("hyperkube", "kubernetes", ".", linker_flags()),
    ("etcd", "etcd", "go.etcd.io/etcd/server/v3", "-s -w"),
    ("helm", "helm", "helm.sh/helm/v3/cmd/helm", helm_linker_flags()),
]


def key():
    """What the programs depend on: the sources below programs/ and the flags. Not the compiler: any that can build them will do."""
    digest = hashlib.sha256(repr(BUILDS).encode())
    for path in sorted((HERE / "programs").rglob("*")):
        if path.is_file():
            digest.update(f"{path.relative_to(HERE)} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()[:12]


def find_go():
    go = shutil.which("go")
    version = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, check=False, env={**os.environ, "GOTOOLCHAIN": "local"}).stdout if go else ""
    found = re.match(r"go1\.(\d+)", version)
    if not found or int(found[1]) < 26:
        raise Unavailable(f"Kubernetes and helm are built with Go 1.26 or later; {'go is ' + version.strip() if go else 'there is no go'} here. "
                          "Run this through ./dev cluster, which fetches one")
    return go


def build(go, name, module, package, flags, target):
    environment = {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly -modcacherw -buildvcs=false",
                   "GOMODCACHE": str(CACHE / "go-mod"), "GOCACHE": str(CACHE / "go-build")}
    started = time.monotonic()
    print(f"==> building {name} (once)", file=sys.stderr, flush=True)
    done = subprocess.run(["nice", "-n", "5", go, "build", "-ldflags", flags, "-o", str(target / name), package], cwd=HERE / "programs" / module,
                          env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise Unavailable(f"go build of {name} failed (exit code {done.returncode}):\n{done.stdout[-3000:]}")
    print(f"==> {name}: {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)


def home():
    """The folder with all programs. One process builds what is missing, others wait for it."""
    folder = CACHE / f"cluster-{KUBERNETES}-{key()}"
    if (folder / ".complete").exists():
        return folder
    with locked(CACHE / f"{folder.name}.lock"):
        if (folder / ".complete").exists():
            return folder
        go = find_go()
        folder.mkdir(parents=True, exist_ok=True)
        for name, module, package, flags in BUILDS:
            if not (folder / name).exists():  # go writes the file at the end, in one piece
                build(go, name, module, package, flags, folder)
        for name in NAMES:
            link = folder / name
            link.unlink(missing_ok=True)
            link.symlink_to("hyperkube")
        (folder / ".complete").touch()
    return folder
