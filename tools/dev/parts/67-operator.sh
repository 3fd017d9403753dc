#!/usr/bin/env bash
# against a real Kubernetes control plane: the test bed itself, the StreamProcessor resource (tests/testbed/cluster, tests/operator)
. "$(dirname "${BASH_SOURCE[0]}")/../part.sh"
need_packages build test kafka cluster
. tools/dev/go.sh
use_go 26
build_programs
use_python
python tests/testbed/cluster/command.py prepare >/dev/null
run_pytest tests/testbed/cluster tests/operator
