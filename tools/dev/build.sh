# Configures and builds. Sourced after lib.sh and packages.sh.

# Compiled files are shared by every checkout of this user: paths below the checkout do not count (see cmake/warnings.cmake).
use_ccache() {
  export CCACHE_DIR=${CCACHE_DIR:-$MS_CACHE/ccache}
  export CCACHE_BASEDIR=$ROOT CCACHE_NOHASHDIR=1 CCACHE_MAXSIZE=${CCACHE_MAXSIZE:-3G}
  mkdir -p "$CCACHE_DIR"
}

# build_in FOLDER "CMAKE OPTIONS" TARGET...
build_in() {
  local folder=$1 options=$2
  shift 2
  use_ccache
  mkdir -p "$folder"
  # shellcheck disable=SC2086  # options are words
  if ! cmake -S "$ROOT" -B "$folder" -G Ninja $options >"$folder/configure.log" 2>&1; then
    cat "$folder/configure.log" >&2
    die "cmake failed (above)"
  fi
  ninja -C "$folder" -j "$(cores)" "$@" >&2
}

# build_programs [TARGET...]: into $BUILD; programs are in $BUILD/bin.
build_programs() {
  local started=$SECONDS
  say "building into ${BUILD#"$ROOT"/} on $(cores) cores"
  build_in "$BUILD" "-DMILLSTREAM_SANITIZE=${MILLSTREAM_SANITIZE:-}" "$@"
  say "built in $((SECONDS - started)) s"
}

# The newest clang there is: Debian 12 brings it as clang-14.
find_clang() {
  local name
  for name in clang++ clang++-19 clang++-18 clang++-14; do
    if command -v "$name" >/dev/null; then echo "$name"; return; fi
  done
  die "no clang++ found; it is in tools/packages"
}

# build_fuzzers: libFuzzer programs with address and undefined-behaviour sanitizers into $BUILD/fuzz.
build_fuzzers() {
  local cxx
  cxx=$(find_clang)
  say "building the fuzz targets with $cxx"
  build_in "$BUILD/fuzz" "-DCMAKE_CXX_COMPILER=$cxx -DCMAKE_C_COMPILER=${cxx/++/} -DMILLSTREAM_FUZZ=ON -DMILLSTREAM_TESTS=OFF -DMILLSTREAM_SANITIZE=address,undefined" fuzzers
}
