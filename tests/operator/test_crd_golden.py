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


# Cases that kubectl gives up on although an API server would have nothing against the processors in them: what it says, and why that is right.
GIVEN_UP = {
    "code-generate-name": ("cannot use generate name with apply", "kubectl create takes it"),
    "valid-other-kinds-only": ("apiVersion not set", "a kustomization is no object: validate skips it"),
    "generated-alias-bomb": ("document contains excessive aliasing", "its reader has a bound, too"),
    "generated-alias-depth": ("apiVersion not set", "it reads any depth of aliases: there is no object in it"),
    "generated-alias-fat": ("apiVersion not set", "the same"),
    "generated-deep-block": ("exceeded max depth of 10000", "its bound is another one"),
    "generated-deep-flow": ("exceeded max depth of 10000", "its bound is another one"),
    "generated-deep-json": ("exceeded max depth", "its bound is another one"),
    "generated-many-documents": ("apiVersion not set", "there is no object in it"),
}
# Not shown to the server: it works on 120,000 wrong inputs until its deadline of a minute.
NOT_SHOWN = {"generated-many-values"}
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
        done = {name: pool.submit(apply, cluster, path) for name, path in everything.items() if name not in NOT_SHOWN}
        return {name: future.result() for name, future in done.items()}


def apply(cluster, path):
    return cluster.run("kubectl", "apply", "--dry-run=server", "--validate=strict", "-f", path, check=False)


SHOWN = [name for name in [*cases(), *GENERATED] if name not in NOT_SHOWN]


@pytest.mark.parametrize("name", SHOWN)
def test_the_server_judges_as_validate_does(name, verdicts):
    done = verdicts[name]
    if name in GIVEN_UP:
        assert done.returncode != 0 and GIVEN_UP[name][0] in done.stderr
        return
    refused = bool(judges(name) & {"schema", "cel"})
    assert (done.returncode != 0) == refused, f"{judges(name) or 'nobody'} should refuse it\n{done.stdout[-2000:]}{done.stderr[-2000:]}"


# "* spec.inputs[0].idleAfter: Invalid value: ...", "is invalid: spec.x: Required value"; unknown fields are named in quotes.
SAID = re.compile(r"(?:^\* |is invalid: |\[|, )((?:spec|metadata)[\w.\[\]-]*): |unknown field \"([^\"]+)\"", re.M)
PLACE = re.compile(r"^\[(schema|cel)\] \S+?(?::\d+:\d+)?: ([^\s:]+): ", re.M)


@pytest.mark.parametrize("name", [name for name in SHOWN if judges(name) & {"schema", "cel"}])
def test_the_server_finds_fault_with_the_same_fields(name, verdicts):
    golden = (GOLDEN / f"{name}.golden").read_text(encoding="utf-8")
    ours = {place for _, place in PLACE.findall(golden)}
    theirs = {field or unknown for field, unknown in SAID.findall(verdicts[name].stderr)}
    if not ours or "more, the last one" in golden:
        return  # the text as a whole is wrong, or the golden file leaves some out
    # A rule over several fields is told of the one that holds them all.
    strange = {place for place in theirs if not any(own.startswith(place) or place.startswith(own) for own in ours)}
    assert not strange, verdicts[name].stderr
    if judges(name) == {"cel"} and theirs:
        missing = {own for own in ours if not any(own.startswith(place) for place in theirs)}
        assert not missing, verdicts[name].stderr


def test_who_judges_what():
    """The cases by who can judge them; update the numbers with the cases, and look at what becomes only ours."""
    shown = {name: judges(name) for name in SHOWN}
    both = [name for name, who in shown.items() if who & {"schema", "cel"}]
    ours = [name for name, who in shown.items() if who == {"code"}]
    accepted = [name for name, who in shown.items() if not who]
    print(f"refused by both sides: {len(both)}, by the programs only: {len(ours)} ({len(GIVEN_UP.keys() & set(ours))} of them kubectl cannot send), "
          f"accepted: {len(accepted)}")
    assert len(both) >= 71 and len(accepted) >= 19
    assert len(ours) <= 29, ours
