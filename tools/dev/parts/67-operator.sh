#!/usr/bin/env bash
# against a real Kubernetes control plane: the test bed itself, the StreamProcessor resource, the operator installed by its chart (tests/testbed/cluster, tests/operator)
. "$(dirname "${BASH_SOURCE[0]}")/../part.sh"
need_packages build test kafka cluster node
. tools/dev/go.sh
use_go 26
build_programs
use_python
python tests/testbed/cluster/command.py prepare >/dev/null

# All wait for servers most of the time, so they run beside each other. What one prints is shown when it is done.
lane() {
  SCRATCH=$SCRATCH/$1
  mkdir -p "$SCRATCH"
  run_pytest "${@:2}" >"$SCRATCH/output" 2>&1 || fail "$1: exit code $?" >>"$SCRATCH/output"
  cat "$SCRATCH/output"
}
resource=(tests/operator/test_crd_golden.py tests/operator/test_crd_shape.py)
# A node needs a machine's worth of memory: it runs before what runs beside each other.
# Where there can be none (an ordinary container, not root), it is said, and ./dev e2e is what cannot run.
if obstacle=$(cd tests/testbed/cluster && python -c 'import namespaces; print(namespaces.obstacle() or "")') && [[ -z $obstacle ]]; then
  lane node tests/testbed/cluster/test_node.py tests/testbed/cluster/test_namespaces.py &
  wait
else
  echo "no node on this machine: $obstacle"
fi
lane testbed tests/testbed/cluster --ignore=tests/testbed/cluster/test_node.py --ignore=tests/testbed/cluster/test_namespaces.py &
lane resource "${resource[@]}" &
lane changes tests/operator/test_apply.py tests/operator/test_changes.py tests/operator/test_kubectl.py &
lane wrong tests/operator/test_wrong.py tests/operator/test_many.py &
wait
