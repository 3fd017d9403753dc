#!/usr/bin/env bash
# every SDK against the worker protocol (millstream conform), and the SDKs' own tests beside Python's
. "$(dirname "${BASH_SOURCE[0]}")/../part.sh"
need_packages build sdk
build_programs millstream conformance_worker
use_python
. tools/dev/go.sh
. tools/dev/node.sh
. tools/dev/rust.sh
. tools/dev/java.sh
use_go
use_rust
use_typescript "$SCRATCH/typescript"

# conform NAME PROFILE COMMAND...: the conformance cases against one worker. Cases for features that its profile says are
# missing are not counted. A frame may take a minute: these run beside much else.
conform() {
  local name=$1 profile=$2
  shift 2
  echo "conformance: $name"
  run_counted "$BUILD/bin/millstream" conform --timeout 60 --profile "$profile" -- "$@"
}

# run_go ARG...: go test, its tests counted.
run_go() {
  local log=$SCRATCH/go.log status=0 passed failed
  go test -v "$@" </dev/null >"$log" 2>&1 || status=$?
  grep -vE '^(=== |--- PASS|PASS$)' "$log" || true
  passed=$(grep -c '^--- PASS' "$log" || true)
  failed=$(grep -c '^--- FAIL' "$log" || true)
  if [[ $status != 0 && $failed == 0 ]]; then failed=1; fi
  count "$passed" "$failed"
  sed -n 's/^--- FAIL: /fail go test: /p' "$log" >>"$MS_RESULTS"
}

# The sidecar with workers of other revisions of the protocol; the recordings that every SDK is played are what their cases are made of.
run_pytest tests/conformance
run_simple "the cases of recorded sidecars are current" python tests/conformance/record.py cases --check

cd sdk/go
run_simple "gofmt, go vet" bash -c 'out=$(gofmt -l .) && echo "$out" && [[ -z $out ]] && go vet ./...'
run_go -race .
run_go ./examples/...
go build -o "$SCRATCH/go-worker" ./conformance
cd "$ROOT"
# Its closing lines are "# pass N" and "# fail N".
run_node() {
  local log=$SCRATCH/node.log status=0 passed failed
  node --test "$@" </dev/null >"$log" 2>&1 || status=$?
  grep -E '^( *)?not ok' -A 30 "$log" || true
  passed=$(sed -n 's/^# pass //p' "$log")
  failed=$(sed -n 's/^# fail //p' "$log")
  if [[ $status != 0 && ${failed:-0} == 0 ]]; then cat "$log"; failed=1; fi
  count "${passed:-0}" "${failed:-0}"
  sed -nE 's/^ *not ok [0-9]+ - /fail node test: /p' "$log" >>"$MS_RESULTS"
}

run_node "$SCRATCH/typescript/dist/test/"
conform typescript sdk/typescript/conformance/profile.yaml node "$SCRATCH/typescript/dist/conformance/worker.js"

conform go sdk/go/conformance/profile.yaml "$SCRATCH/go-worker"

# run_cargo ARG...: cargo test, its tests counted.
run_cargo() {
  local log=$SCRATCH/cargo.log status=0 passed failed
  cargo test --locked "$@" </dev/null >"$log" 2>&1 || status=$?
  grep -vE '^test .* \.\.\. ok$|^ +(Compiling|Downloaded|Downloading) |^$|^running ' "$log" || true
  passed=$(grep -cE '^test .* \.\.\. ok$' "$log" || true)
  failed=$(grep -cE '^test .* \.\.\. FAILED$' "$log" || true)
  if [[ $status != 0 && $failed == 0 ]]; then failed=1; fi
  count "$passed" "$failed"
  sed -nE 's/^test (.*) \.\.\. FAILED$/fail cargo test: \1/p' "$log" >>"$MS_RESULTS"
}

cd sdk/rust
run_cargo
cp "$CARGO_TARGET_DIR/debug/examples/conformance_worker" "$SCRATCH/rust-conformance_worker"
run_simple "cargo clippy" cargo clippy --quiet --locked --all-targets -- -D warnings
run_simple "cargo fmt" cargo fmt --check
run_simple "cargo doc" env RUSTDOCFLAGS="-D warnings" cargo doc --quiet --locked --no-deps
run_simple "cargo package" cargo package --quiet --locked --allow-dirty --no-verify
cd "$ROOT"
conform rust sdk/rust/conformance/profile.yaml "$SCRATCH/rust-conformance_worker"
# The C++ SDK as its users get it: installed, found by CMake and by pkg-config, its README's programs built and tested.
PREFIX=$SCRATCH/prefix
export CMAKE_GENERATOR=Ninja CMAKE_CXX_COMPILER_LAUNCHER=ccache
cpp_package_installs() {
  cmake -S sdk/cpp -B "$SCRATCH/cpp" -DCMAKE_INSTALL_PREFIX="$PREFIX" -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_CXX_FLAGS="-Wall -Wextra -Werror" &&
    cmake --build "$SCRATCH/cpp" && cmake --install "$SCRATCH/cpp"
}
cpp_samples_build_with_cmake() {
  cmake -S sdk/cpp/examples -B "$SCRATCH/samples" -DCMAKE_PREFIX_PATH="$PREFIX" -DCMAKE_CXX_FLAGS=-Werror &&
    cmake --build "$SCRATCH/samples" && ctest --test-dir "$SCRATCH/samples" --output-on-failure
}
cpp_samples_build_with_pkg_config() (
  export PKG_CONFIG_PATH=$PREFIX/lib/pkgconfig
  [[ $(pkg-config --modversion millstream) == $(sed -n 's/.*kVersion\[\] = "\(.*\)".*/\1/p' "$PREFIX/include/millstream/version.h") ]] &&
    ccache g++ -std=c++20 -c sdk/cpp/examples/wordcount.cc -o "$SCRATCH/wordcount.o" $(pkg-config --cflags millstream) &&
    g++ "$SCRATCH/wordcount.o" -o "$SCRATCH/wordcount" $(pkg-config --libs millstream)
)
# Every program of the README is the one of the file, which is built and tested.
cpp_readme_is_current() {
  python - <<'PYTHON'
import pathlib, re, sys
readme = pathlib.Path("sdk/cpp/README.md").read_text(encoding="utf-8")
samples = dict(re.findall(r"<!-- sample: (\w+) -->\n```cpp\n(.*?)```", readme, re.S))
wrong = [name for name, text in samples.items() if text != pathlib.Path(f"sdk/cpp/examples/{name}.cc").read_text(encoding="utf-8")]
sys.exit(f"not as in examples/: {wrong}, of {sorted(samples)}" if wrong or len(samples) != 3 else 0)
PYTHON
}
cpp_api_pages() (cd sdk/cpp && { cat package/Doxyfile; echo "OUTPUT_DIRECTORY = $SCRATCH"; } | doxygen -)
run_simple "the C++ package installs" cpp_package_installs
run_simple "the C++ samples build and work with CMake" cpp_samples_build_with_cmake
run_simple "the C++ samples build with pkg-config" cpp_samples_build_with_pkg_config
run_simple "the C++ README has the programs that are tested" cpp_readme_is_current
run_simple "the C++ API pages are complete" cpp_api_pages

# What `millstream init` writes, with the SDKs of this checkout in place of published ones.
init_go() (
  set -e
  "$BUILD/bin/millstream" init "$SCRATCH/init-go" --lang go >/dev/null
  cd "$SCRATCH/init-go"
  go mod edit -replace "github.com/millstream/millstream/sdk/go=$ROOT/sdk/go"
  GOFLAGS="-mod=mod -modcacherw -buildvcs=false" go mod tidy
  go vet . && go test . && [[ -z $(gofmt -l .) ]]
)
init_typescript() (
  set -e
  "$BUILD/bin/millstream" init "$SCRATCH/init-ts" --lang typescript >/dev/null
  cd "$SCRATCH/init-ts"
  mkdir node_modules
  ln -s "$SCRATCH/typescript" node_modules/millstream
  ln -s "$(readlink -f "$SCRATCH/typescript/node_modules")"/{@types,undici-types,typescript} node_modules/
  node_modules/typescript/bin/tsc && node --test dist/
)
init_rust() (
  set -e
  "$BUILD/bin/millstream" init "$SCRATCH/init-rust" --lang rust >/dev/null
  cd "$SCRATCH/init-rust"
  # The versions that the SDK was tested with.
  cp "$ROOT/sdk/rust/Cargo.lock" .
  printf '[patch.crates-io]\nmillstream = { path = "%s" }\n' "$ROOT/sdk/rust" >>Cargo.toml
  cargo test --quiet && cargo fmt --check
)
init_cpp() (
  set -e
  "$BUILD/bin/millstream" init "$SCRATCH/init-cpp" --lang cpp >/dev/null
  cmake -S "$SCRATCH/init-cpp" -B "$SCRATCH/init-cpp/build" -DCMAKE_PREFIX_PATH="$PREFIX" -DCMAKE_CXX_FLAGS="-Wall -Wextra -Werror"
  cmake --build "$SCRATCH/init-cpp/build"
  ctest --test-dir "$SCRATCH/init-cpp/build" --output-on-failure
)
run_simple "millstream init --lang cpp" init_cpp
run_simple "millstream init --lang go" init_go
run_simple "millstream init --lang rust" init_rust
run_simple "millstream init --lang typescript" init_typescript

# Compiles, tests, makes the jars of sources and of javadoc, and builds what `millstream init` writes, in one go.
java_and_init() {
  "$BUILD/bin/millstream" init "$SCRATCH/java/init" --lang java --name init >/dev/null
  local log=$SCRATCH/java.log status=0 report
  use_java "$SCRATCH/java" verify init >"$log" 2>&1 || status=$?
  if [[ $status != 0 ]]; then cat "$log"; fi
  for report in "$SCRATCH"/java/*/target/surefire-reports/TEST-*.xml; do
    python tools/dev/junit.py surefire "$report" "$MS_RESULTS" || status=1
  done
  return "$status"
}
run_simple "mvn verify: sdk/java, and millstream init --lang java" java_and_init
conform java sdk/java/conformance/profile.yaml java "${QUICK_JAVA[@]}" -cp "$JAVA_CLASSPATH" dev.millstream.conformance.ConformanceWorker

conform python sdk/python/conformance/profile.yaml python sdk/python/conformance/conformance_worker.py
conform python-async sdk/python/conformance/profile.yaml python sdk/python/conformance/conformance_worker.py --async
conform cpp tests/workers/conformance.yaml "$BUILD/bin/conformance_worker"
