"""Who may include whom, and who owns which library. The picture is in docs/internals/architecture.md."""

BASE = ["common/base"]
COMMON = BASE + ["common/spec", "common/http", "common/log"]
SIDECAR_PARTS = ["sidecar/protocol", "sidecar/store", "sidecar/group"]
SIDECAR = SIDECAR_PARTS + ["sidecar/engine", "sidecar/server", "sidecar/host"]
BACKENDS = ["common/log/embedded", "common/log/kafka"]

# Folder -> the folders its code may include, itself apart. A folder below one in the table without a line of its own counts as that one.
ANYTHING = None
MAY_INCLUDE = {
    "common/base": [],
    "common/spec": BASE,
    "common/http": BASE,
    "common/log": BASE,
    "common/log/embedded": BASE + ["common/log"],
    "common/log/kafka": BASE + ["common/http", "common/log"],
    "sidecar/protocol": BASE,
    "sidecar/store": COMMON,
    "sidecar/group": COMMON + ["common/log/kafka"],
    "sidecar/engine": COMMON + SIDECAR_PARTS,
    "sidecar/server": COMMON + SIDECAR_PARTS + ["sidecar/engine"],
    "sidecar/host": COMMON + BACKENDS + SIDECAR,
    "sidecar/pod": COMMON + BACKENDS + SIDECAR,
    "sidecar": COMMON + BACKENDS + SIDECAR + ["sidecar/pod"],
    "cli": COMMON + BACKENDS + SIDECAR + ["operator/kube"],  # kubectl millstream
    "operator/kube": COMMON,
    "operator/model": COMMON,
    "operator/runtime": COMMON + ["operator/kube"],
    "operator/reconcile": COMMON + ["operator/kube", "operator/model", "operator/runtime"],
    "operator": COMMON + ["operator/kube", "operator/model", "operator/runtime", "operator/reconcile"],
    "sdk/cpp": BASE + ["sidecar/protocol"],
    "bench": ANYTHING,
    "tests": ANYTHING,
}

# First part of a third-party include -> folders that own the library. Everybody may use Abseil, the standard library and the
# operating system. A library's headers appear in its owners only, and no header seen from outside the owner leads to them.
SIDECAR_AND_CLI = ["sidecar/server", "sidecar/host", "sidecar/pod", "sidecar", "cli"]
OWNERS = {
    "rocksdb": ["common/log/embedded", "sidecar/store", "sidecar/host"],
    "cpprest": ["common/http"],
    "pplx": ["common/http"],
    "boost": ["common/http"],
    "librdkafka": ["common/log/kafka"],
    "msgpack": ["sidecar/protocol", "sdk/cpp"],
    "yaml-cpp": ["common/spec"],
    "valijson": ["common/spec"],
    "nlohmann": ["sdk/cpp", "common/spec", "operator/kube", "operator/model", "operator/runtime", "operator/reconcile", "operator", "common/log/embedded", "common/log/kafka", "sidecar/protocol", "sidecar/store", "sidecar/engine"] + SIDECAR_AND_CLI,
    "prometheus": ["common/base"],
    "spdlog": ["common/base"],
    "CLI": ["cli", "sidecar", "operator"],
    "jemalloc": ["sidecar/host", "sidecar", "cli"],
    "openssl": ["sidecar/group", "common/http"],
}
# For tests and benchmarks only.
TEST_LIBRARIES = ["gtest", "gmock", "benchmark"]
FREE = ["millstream", "absl", "sys", "netinet", "arpa", "net", "linux", "asm", "bits", "experimental"]


def layer_of(folder, table=None):
    """The longest line of the table that `folder` is or is below; None when there is none."""
    table = MAY_INCLUDE if table is None else table
    while folder not in ("", "."):
        if folder in table:
            return folder
        folder = folder.rpartition("/")[0]
    return None


def reachable(layer):
    """All layers that code of `layer` may lead to."""
    seen, todo = set(), [layer]
    while todo:
        current = todo.pop()
        if current in seen:
            continue
        seen.add(current)
        todo.extend(MAY_INCLUDE.get(current) or [])
    return seen


def library_of(bracket, path):
    """The third-party library an include belongs to, or None. Our own includes are quoted and start with a folder of ours."""
    first = path.split("/")[0].removesuffix(".h").removesuffix(".hpp")
    if first in FREE:
        return None
    if "/" not in path:
        return first if first in OWNERS or first in TEST_LIBRARIES else None
    if bracket == '"' and first in ("common", "sidecar", "operator", "cli", "sdk", "bench", "tests", "generated"):
        return None
    return first
