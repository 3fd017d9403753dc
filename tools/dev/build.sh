# Configures and builds. Sourced after lib.sh and packages.sh.

# Compiled files are shared by every checkout of this user: paths below the checkout do not count (see cmake/warnings.cmake).
use_ccache() {
  export CCACHE_DIR=${CCACHE_DIR:-$MS_CACHE/ccache}
  export CCACHE_BASEDIR=$ROOT CCACHE_NOHASHDIR=1 CCACHE_MAXSIZE=${CCACHE_MAXSIZE:-3G}
  mkdir -p "$CCACHE_DIR"
}

. "$ROOT/tools/dev/librdkafka.sh"

# build_in FOLDER "CMAKE OPTIONS" TARGET...
build_in() {
  local folder=$1 options=$2
  shift 2
  use_ccache
  need_librdkafka >/dev/null
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
