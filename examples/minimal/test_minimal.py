"""The minimal worker: it conforms as far as its profile says, runs, and is as small as it says."""

import json
import re
import shutil
import subprocess
import time

import pytest

from local_run import Run

RUBY = shutil.which("ruby") or "ruby"


def test_the_worker_is_under_a_hundred_lines(minimal):
    lines = (minimal.folder / "millstream.rb").read_text().splitlines()
    code = [line for line in lines if not re.match(r"\s*(#|$)", line)]
    assert len(code) < 100
    assert max(map(len, lines)) <= 160


def test_it_conforms(minimal):
    done = subprocess.run(
        ["millstream", "conform", "--profile", minimal.folder / "profile.yaml", "-o", "json", "--", RUBY, minimal.folder / "conformance.rb"],
        stdout=subprocess.PIPE, text=True, check=False)
    report = json.loads(done.stdout)
    wrong = [case for case in report["cases"] if case["verdict"] in ("failed", "fixed")]
    assert done.returncode == 0 and not wrong, wrong
    assert sum(case["verdict"] == "passed" for case in report["cases"]) > 70


def test_it_counts(minimal, tmp_path):
    words = [f"word-{n % 7}" for n in range(500)]
    run = Run(minimal.folder / "processor.yaml", tmp_path / "data", [RUBY, str(minimal.folder / "count.rb")], tmp_path / "run.log")
    try:
        run.start()
        subprocess.run(["millstream", "produce", "words", "--key", "word", "--data", tmp_path / "data"], check=True,
                       input="".join(f'{{"word": "{word}"}}\n' for word in words), text=True)
        run.wait_for(len(words), patience=60)
        deadline = time.monotonic() + 30
        expected = sorted((f"word-{n}", str(words.count(f"word-{n}"))) for n in range(7))
        while (got := state(tmp_path / "data")) != expected and time.monotonic() < deadline:
            time.sleep(0.2)
        assert got == expected
        run.stop()
    finally:
        run.close()


def state(data):
    done = subprocess.run(["millstream", "state", "scan", "counts", "-o", "json", "--data", data], stdout=subprocess.PIPE, text=True, check=True)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return sorted((row["key"], str(row["value"])) for row in rows)
