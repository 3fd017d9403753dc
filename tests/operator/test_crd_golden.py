"""Every golden manifest (tests/golden/manifests), and every manifest of the examples and the docs, through the real kubectl at the real API server:
it accepts and refuses what `millstream validate` accepts and refuses, but for what only the programs can judge, which the golden file marks [code]."""

import concurrent.futures
import os
import pathlib
import re
import subprocess

import manifests
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden" / "manifests"
BUILD = pathlib.Path(os.environ.get("MILLSTREAM_BUILD_DIR", ROOT / "build"))
LANES = 3  # kubectl takes a third of a second of CPU each

# "[cel] file.yaml:5:34: spec.inputs[0].idleAfter: must be ..."; notes and warnings refuse nothing.
FINDING = re.compile(r"^\[(schema|cel|code)\] \S+?(?::\d+:\d+)?: (?!note: |warning: )(.*)$", re.M)


def cases():
    """{name: path of the file or folder}; the generated ones are added by a fixture."""
    found = {path.stem: path for path in GOLDEN.iterdir() if path.suffix in (".yaml", ".json") or path.is_dir()}
    return dict(sorted(found.items()))


def judges(name):
    """Who refuses it, by its golden file: a set of "schema", "cel", "code"."""
    return {judge for judge, _ in FINDING.findall((GOLDEN / f"{name}.golden").read_text(encoding="utf-8"))}


GENERATED = sorted(path.stem for path in GOLDEN.glob("generated-*.golden"))


@pytest.fixture(scope="module")
def generated(tmp_path_factory):
    """The cases that are too large or too odd to be files, written by the program that makes them."""
    folder = tmp_path_factory.mktemp("generated")
    subprocess.run([str(BUILD / "bin" / "spec_test"), "--gtest_filter=GoldenCases.CanBeWrittenOut"], cwd=ROOT, check=True, capture_output=True,
                   env={**os.environ, "MILLSTREAM_WRITE_GENERATED": str(folder)}, timeout=300)
    return {name: folder / f"{name}.yaml" for name in GENERATED}


@pytest.fixture(scope="module")
def verdicts(cluster, generated):
    """{case: CompletedProcess of kubectl apply}. All at once, several at a time."""
    everything = {**cases(), **generated}
    for namespace in sorted({namespace for path in everything.values() for namespace in manifests.namespaces(path)} - {"default"}):
        cluster.namespace(namespace)
    with concurrent.futures.ThreadPoolExecutor(LANES) as pool:
        done = {name: pool.submit(apply, cluster, path) for name, path in everything.items()}
        return {name: future.result() for name, future in done.items()}


def apply(cluster, path):
    return cluster.run("kubectl", "apply", "--dry-run=server", "--validate=strict", "-f", path, check=False)


@pytest.mark.parametrize("name", [*cases(), *GENERATED])
def test_the_server_judges_as_validate_does(name, verdicts):
    done = verdicts[name]
    refused = bool(judges(name) & {"schema", "cel"})
    assert (done.returncode != 0) == refused, f"{judges(name) or 'nobody'} should refuse it\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
