#!/usr/bin/env python3
"""Shows that every rule of tidy can fail: small trees in which exactly one rule must complain, and clean ones."""
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
import rules  # noqa: E402
from rules import error_table  # noqa: E402
from tree import File, Tree  # noqa: E402


def header(path, body=""):
    guard = "MILLSTREAM_" + path.removesuffix(".h").replace("/", "_").upper() + "_H_"
    return f"#ifndef {guard}\n#define {guard}\n{body}\n#endif  // {guard}\n"


README = "# folder\n\npurpose\n\nfiles\n"
LINE = "// a line\n"

# A tree that keeps every rule; each case below adds to it or replaces files of it.
CLEAN = {
    "common/base/CMakeLists.txt": "millstream_library(base SOURCES ids.cc DEPS x)\nmillstream_test(t SOURCES ids_test.cc)\nset(C ${CMAKE_CURRENT_SOURCE_DIR}/testing/c_testing.cc)\n",
    "common/base/testing/c_testing.cc": "#include <gtest/gtest.h>\n",
    "common/base/README.md": README,
    "common/base/ids.h": header("common/base/ids.h", "#include <string>"),
    "common/base/ids.cc": '#include "common/base/ids.h"\n#include "absl/strings/str_cat.h"\n#include <spdlog/spdlog.h>\n',
    "common/base/ids_test.cc": '#include "common/base/ids.h"\n#include <gtest/gtest.h>\n  GTEST_SKIP() << "needs root";\n',
    "sidecar/store/CMakeLists.txt": "millstream_library(store SOURCES disk.cc)\n",
    "sidecar/store/README.md": README,
    "sidecar/store/store.h": header("sidecar/store/store.h", '#include "common/base/ids.h"'),
    "sidecar/store/disk.h": header("sidecar/store/disk.h", "#include <rocksdb/db.h>"),
    "sidecar/store/disk.cc": '#include "sidecar/store/disk.h"\n',
    "sidecar/engine/CMakeLists.txt": "millstream_library(engine SOURCES\n  task.cc)\n",
    "sidecar/engine/README.md": "See [the store](../store/README.md), [this](#here), [that](https://example.com), [tree](../store).\n" + README,
    "sidecar/engine/task.cc": '#include "sidecar/store/store.h"\n#include <sys/types.h>\n',
    "tests/tidy/notes.py": "# TODO in here is allowed: this folder forbids it\n",
    "tools/x.sh": "#!/usr/bin/env bash\nmktemp /tmp/a.XXXXXX; echo $HOME/work ./work/x a/root\n",
    "x.py": "print(1)\n",
}



def errors():
    """A table of protocol errors and all that is made of it."""
    table = [{"code": "Internal", "from": "both", "final": False, "cause": "a bug", "remedy": "say who spoke"}]
    marks = f"# protocol\n{error_table.BEGIN}\n{error_table.END}\n"
    made = {path: writer(table, marks) for path, writer in error_table.WRITERS.items()}
    return {error_table.SOURCE: json.dumps(table), "sidecar/protocol/README.md": README, **made}


ERRORS = errors()

# A resource definition and its copies.
CRD = "metadata:\n  name: streamprocessors.millstream.dev\n{}spec:\n  x: y\n"
DEFINITION = {"crds/streamprocessors.yaml": CRD.format(""), "helm/millstream/files/streamprocessors.yaml": CRD.format(""),
              "install/millstream.yaml": "a: b\n---\n" + CRD.format("  labels:\n    c: d\n") + "---\ne: f\n"}

# rule -> trees in which it and no other rule fails
BROKEN = {
    "dependency_direction": [
        {"common/base/ids.cc": '#include "sidecar/store/store.h"\n'},
        {"sidecar/store/disk.cc": '#include "sidecar/engine/task.h"\n', "sidecar/engine/task.h": header("sidecar/engine/task.h")},
        # tests too, when the other folder stands on theirs
        {"common/base/ids_test.cc": '#include "sidecar/store/store.h"\n'},
        # the engine sees interfaces of the log, no backend
        {"sidecar/engine/task.cc": '#include "common/log/embedded/log.h"\n',
         "common/log/embedded/log.h": header("common/log/embedded/log.h"), "common/log/embedded/README.md": README},
        # the protocol knows nothing but common/base
        {"sidecar/protocol/frame.h": header("sidecar/protocol/frame.h", '#include "common/log/log.h"'), "sidecar/protocol/README.md": README,
         "common/log/log.h": header("common/log/log.h"), "common/log/README.md": README},
        {"newcomer/a.h": header("newcomer/a.h"), "newcomer/README.md": README},
    ],
    "include_paths": [{"common/base/ids.cc": '#include "ids.h"\n'}, {"common/base/ids.cc": '#include "common/base/gone.h"\n'}],
    "library_owners": [
        {"sidecar/engine/task.cc": "#include <rocksdb/db.h>\n"},
        {"common/base/ids.cc": "#include <cpprest/json.h>\n"},
        {"common/base/ids.cc": "#include <msgpack.hpp>\n"},
        {"common/base/ids.cc": "#include <gtest/gtest.h>\n"},
        {"common/base/ids.cc": "#include <boost/asio.hpp>\n"},
        {"common/base/ids.cc": "#include <folly/json.h>\n"},
    ],
    "library_leaks": [
        {"sidecar/engine/task.cc": '#include "sidecar/store/disk.h"\n'},
        {"sidecar/store/store.h": header("sidecar/store/store.h", '#include "sidecar/store/disk.h"')},
    ],
    "file_size": [{"common/base/ids.h": header("common/base/ids.h", LINE * 400)}, {"common/base/ids.cc": LINE * 801}, {"x.py": "x = 1\n" * 801},
                  {"tools/x.sh": "true\n" * 501}],
    "folder_readme": [{"common/base/README.md": None}, {"common/base/README.md": "# base\n"}],
    "include_guard": [{"common/base/ids.h": "#pragma once\n"}, {"common/base/ids.h": header("common/base/other.h")},
                      {"common/base/ids.h": header("common/base/ids.h") + "int x;\n"}],
    "unfinished": [{"common/base/ids.cc": f"// {mark}\n"} for mark in ("TODO: more", "FIXME", "good enough for now", "a stub", "Not implemented")],
    "disabled_tests": [{"common/base/ids_test.cc": "TEST(A, DISABLED_B) {}\n"}, {"x.py": "@pytest.mark.skip\ndef f(): pass\n"},
                       {"x.py": "@pytest.mark.xfail(reason='x')\ndef f(): pass\n"}, {"common/base/ids_test.cc": "  GTEST_SKIP();\n"}],
    "machine_paths": [{"x.py": "open('/work/main/x')\n"}, {"notes.md": "see /root/.cache\n"}, {"tools/x.sh": "ls /home/me\n"}, {"tools/x.sh": "cd /work\n"}],
    "registry_hosts": [{"notes.md": "from deb.debian.org\n"}, {"x.py": "'https://pypi.org/simple'\n"}],
    "scripts": [{"tools/x.sh": "if true; then\n"}, {"dev": "#!/usr/bin/env bash\nfor x in\n"}, {"x.py": "def f(:\n"}],
    "compiled": [{"common/base/extra.cc": "\n"}, {"common/base/bids.cc": "\n"}, {"common/base/more/deep.cc": "\n", "common/base/more/README.md": README}],
    "links": [{"notes.md": "[gone](docs/gone.md)\n"}, {"sidecar/engine/notes.md": "[gone](../stores/README.md#x)\n"}],
    "named_tests": [{"docs/reference/features.md": "[`Gone`](../../x.py)\n", "x.py": "def here(): pass\n"},
                    {"docs/reference/features.md": "[`her`](../../x.py)\n", "x.py": "def here(): pass\n"},
                    {"docs/reference/features.md": "| there | here | shown by | why |\n|---|---|---|---|\n| a | b | c | d |\n"},
                    {"docs/internals/bad-input.md": "[`Gone`](../../x.py)\n", "x.py": "def here(): pass\n"},
                    {"docs/reference/operator-conventions.md": "[`Gone`](../../x.py)\n", "x.py": "def here(): pass\n"}],
    "copied_definition": [{**DEFINITION, "helm/millstream/files/streamprocessors.yaml": None}, {**DEFINITION, "crds/streamprocessors.yaml": "a: c\n"},
                          {**DEFINITION, "install/millstream.yaml": DEFINITION["install/millstream.yaml"].replace("x: y", "x: z")}],
    # The table and what is made of it are not in the clean tree, so each of these is the whole of it.
    "protocol_errors": [{**ERRORS, "sdk/go/error_codes.go": ERRORS["sdk/go/error_codes.go"] + "\n"}, {**ERRORS, "docs/reference/protocol.md": "# no marks\n"},
                        {**ERRORS, error_table.SOURCE: ERRORS[error_table.SOURCE].replace("spoke", "spoke.")},
                        {**ERRORS, error_table.SOURCE: ERRORS[error_table.SOURCE].replace("spoke", "was silent")},
                        {**ERRORS, "sdk/python/src/millstream/error_codes.py": None}],
}


def complaints(changes):
    """{rule: [finding]} of the rules that fail in the clean tree with `changes`."""
    contents = {**CLEAN, **changes}
    tree = Tree([File(path, text) for path, text in contents.items() if text is not None])
    found = {}
    for rule in rules.RULES:
        findings = [finding for finding in rule(tree) if not finding.warning]
        if findings:
            found[rule.__name__] = findings
    return found


def main():
    passed, failed = 0, 0

    def check(name, expected, changes):
        nonlocal passed, failed
        got = complaints(changes)
        if sorted(got) == expected:
            passed += 1
        else:
            failed += 1
            print(f"FAILED tidy self-test {name}: expected {expected}, got {got}")

    check("clean tree", [], {})
    check("current table of errors", [], ERRORS)
    check("current copies", [], DEFINITION)
    check("warnings do not fail", [], {"common/base/ids.cc": LINE * 600})
    for rule in rules.RULES:
        cases = BROKEN.get(rule.__name__, [])
        if not cases:
            failed += 1
            print(f"FAILED tidy self-test {rule.__name__}: no tree shows that it can fail")
        for number, changes in enumerate(cases, 1):
            check(f"{rule.__name__} {number}", [rule.__name__], changes)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
