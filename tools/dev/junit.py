#!/usr/bin/env python3
"""Reads a JUnit file and reports its tests to the driver of ./dev test.

    junit.py pytest|ctest FILE RESULTS

For ctest each test is a GoogleTest program: its own tests are counted from its output, also the ones it skipped, which
ctest alone would show as passed. Other programs count as one test. Failed tests are reported by name, with the first line of what they said.
"""
import re
import sys
import xml.etree.ElementTree as ElementTree


def tests_of_program(name, output, passed):
    """(passed, [failed], [skipped]) of one ctest entry."""
    ran = re.search(r"^\[==========\] (\d+) tests? from .* ran\.", output, re.MULTILINE)
    if not ran:
        return (1, [], []) if passed else (0, [name], [])
    skipped = sorted({f"{name}: {test}" for test in re.findall(r"^\[  SKIPPED \] ([A-Za-z_][\w./]*)", output, re.MULTILINE)})
    failed = sorted({f"{name}: {test}" for test in re.findall(r"^\[  FAILED  \] ([A-Za-z_][\w./]*)", output, re.MULTILINE)})
    if not passed and not failed:
        failed = [f"{name}: all its tests passed, then it ended badly"]
    ok = re.search(r"^\[  PASSED  \] (\d+) tests?\.", output, re.MULTILINE)
    return (int(ok.group(1)) if ok else 0), failed, skipped


def first_line(element):
    """What a failure says, in short; empty if it says nothing."""
    lines = (element.get("message") or "").split("\n")
    return f": {lines[0][:200]}" if lines[0] else ""


def read(kind, path):
    passed, failed, skipped = 0, [], []
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        name = case.get("name")
        bad = next((found for found in (case.find("failure"), case.find("error")) if found is not None), None)
        omitted = case.find("skipped")
        if kind == "ctest" and omitted is None:
            more_passed, more_failed, more_skipped = tests_of_program(name, case.findtext("system-out") or "", bad is None)
            passed, failed, skipped = passed + more_passed, failed + more_failed, skipped + more_skipped
        elif omitted is not None:
            reason = (omitted.get("message") or "").splitlines()
            skipped.append(f"{case.get('classname') or kind}.{name}: {reason[0] if reason else 'no reason given'}")
        else:
            passed += bad is None
            failed += [] if bad is None else [f"{case.get('classname') or kind}.{name}{first_line(bad)}"]
    return passed, failed, skipped


def main():
    kind, path, results = sys.argv[1:]
    passed, failed, skipped = read(kind, path)
    with open(results, "a", encoding="utf-8") as out:
        out.write(f"count {passed} {len(failed)}\n")
        out.writelines(f"fail {name}\n" for name in failed)
        for name in skipped:
            print(f"SKIPPED {name}")
            out.write(f"skip {name}\n")


if __name__ == "__main__":
    main()
