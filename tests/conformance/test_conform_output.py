"""What `millstream conform` gives to programs: JUnit's XML, JSON and the exit code, read with parsers that know nothing of it."""

import json
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORKER = [sys.executable, ROOT / "sdk" / "python" / "conformance" / "conformance_worker.py"]
# What XML cannot hold, what it has to escape, and what is not UTF-8.
AWKWARD = ["sh", "-c", r"""printf 'a\001b <&> "quoted" ]]> \377\302 \033[31mred\n'; exit 7"""]


def conform(folder, worker, *arguments):
    done = subprocess.run(["millstream", "conform", "--timeout", "60", *arguments, "-o", "json", "--junit", folder / "out.xml", "--name", 'a <suite> & "more"', "--", *worker],
                          stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=300)
    assert done.stderr == b""
    return done.returncode, json.loads(done.stdout), ElementTree.parse(folder / "out.xml").getroot()


def suite_of(root):
    assert root.tag == "testsuites"
    [suite] = root
    assert suite.get("name") == 'a <suite> & "more"'
    return suite


def test_every_verdict(tmp_path):
    profile = tmp_path / "profile.yaml"
    profile.write_text("features: {scan: it <cannot>}\nknownFailures: {batches/sequence-numbers: it was broken once}\n")
    chosen = ["batches/sequence-numbers", "batches/no-records", "state/scan-in-pages-with-a-limit"]
    code, result, root = conform(tmp_path, WORKER, "--profile", profile, *(word for name in chosen for word in ("--case", name)))
    assert code == 1, "a known failure that passes is to be taken off the list"
    assert {case["name"]: case["verdict"] for case in result["cases"]} == dict(zip(chosen, ["fixed", "passed", "skipped"]))
    assert {name: result[name] for name in ("passed", "failed", "knownFailures", "skipped")} == {
        "passed": 1, "failed": 1, "knownFailures": 0, "skipped": 1}
    suite = suite_of(root)
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("3", "1", "1")
    cases = {case.get("name"): case for case in suite}
    assert set(cases) == set(chosen)
    assert all(float(case.get("time")) >= 0 for case in suite)
    assert "take it off knownFailures (it was broken once)" in cases["batches/sequence-numbers"].find("failure").get("message")
    assert list(cases["batches/no-records"]) == []
    assert cases["state/scan-in-pages-with-a-limit"].find("skipped").get("message") == "no scan: it <cannot>"


def test_a_failure_tells_all(tmp_path):
    code, result, root = conform(tmp_path, AWKWARD, "--case", "batches/sequence-numbers")
    assert code == 1
    [case] = result["cases"]
    assert case["verdict"] == "failed" and case["place"].startswith("batches.yaml:") and "the program has ended" in case["problem"]
    assert case["about"].startswith("Sequence numbers") and 'b <&> "quoted" ]]> ' in case["output"]
    failure = suite_of(root)[0].find("failure")
    assert "the program has ended" in failure.get("message")
    assert "a?b <&> \"quoted\" ]]> " in failure.text and "?[31mred" in failure.text


def test_all_is_well(tmp_path):
    code, result, root = conform(tmp_path, WORKER, "--case", "batches/no-records", "--case", "timers/due-and-records")
    assert code == 0 and result["passed"] == 2 and result["failed"] == 0
    assert suite_of(root).get("failures") == "0"
