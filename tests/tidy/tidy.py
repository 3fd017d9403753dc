#!/usr/bin/env python3
"""Checks the rules of the code base: tidy.py [ROOT]. One test per rule; see README.md."""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
from rules import RULES  # noqa: E402
from tree import Tree  # noqa: E402


def main():
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[2]
    tree = Tree.of_checkout(root)
    failed = 0
    for rule in RULES:
        name = rule.__name__.replace("_", "-")
        findings = list(rule(tree))
        for finding in findings:
            print(f"{finding.path}:{finding.line}: {'note' if finding.warning else name}: {finding.text}")
        broken = any(not finding.warning for finding in findings)
        failed += broken
        print(f"{'FAILED' if broken else 'passed'} tidy {name}: {rule.__doc__.splitlines()[0]}")
    print(f"{len(RULES) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
