#!/usr/bin/env python3
"""Reads a JUnit file and reports its tests to the driver of ./dev test.

    junit.py pytest|ctest FILE RESULTS

For ctest each test is a GoogleTest program: its own tests are counted from its output, also the ones it skipped, which
ctest alone would show as passed. Other programs count as one test.
"""
import re
import sys
import xml.etree.ElementTree as ElementTree


def tests_of_program(name, output, passed):
    """(passed, failed, [skipped]) of one ctest entry."""
    ran = re.search(r"^\[==========\] (\d+) tests? from .* ran\.", output, re.MULTILINE)
    if not ran:
        return (1, 0, []) if passed else (0, 1, [])
    skipped = sorted({f"{name}: {test}" for test in re.findall(r"^\[  SKIPPED \] ([A-Za-z_][\w./]*)", output, re.MULTILINE)})
    failed = len(set(re.findall(r"^\[  FAILED  \] ([A-Za-z_][\w./]*)", output, re.MULTILINE)))
    if not passed and failed == 0:
        failed = 1  # all its tests passed, then it ended badly
    ok = re.search(r"^\[  PASSED  \] (\d+) tests?\.", output, re.MULTILINE)
    return (int(ok.group(1)) if ok else 0), failed, skipped


def read(kind, path):
    passed, failed, skipped = 0, 0, []
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        name = case.get("name")
        bad = case.find("failure") is not None or case.find("error") is not None
        omitted = case.find("skipped")
        if kind == "ctest" and omitted is None:
            more_passed, more_failed, more_skipped = tests_of_program(name, case.findtext("system-out") or "", not bad)
            passed, failed, skipped = passed + more_passed, failed + more_failed, skipped + more_skipped
        elif omitted is not None:
            reason = (omitted.get("message") or "").splitlines()
            skipped.append(f"{case.get('classname') or kind}.{name}: {reason[0] if reason else 'no reason given'}")
        else:
            passed, failed = passed + (not bad), failed + bad
    return passed, failed, skipped


def main():
    kind, path, results = sys.argv[1:]
    passed, failed, skipped = read(kind, path)
    with open(results, "a", encoding="utf-8") as out:
        out.write(f"count {passed} {failed}\n")
        for name in skipped:
            print(f"SKIPPED {name}")
            out.write(f"skip {name}\n")


if __name__ == "__main__":
    main()
