# Shared by ./dev and its helpers: places, messages. Sourced; expects ROOT to be exported.

# Caches live outside the checkout, in the user's cache folder, and are rebuilt when they are missing.
MS_CACHE=${XDG_CACHE_HOME:-${HOME:-$(getent passwd "$(id -u)" | cut -d: -f6)}/.cache}/millstream
# Where cmake builds. A sanitizer build has a folder of its own, so that switching costs nothing.
BUILD=${MILLSTREAM_BUILD_DIR:-$ROOT/build}
if [[ -n ${MILLSTREAM_SANITIZE:-} ]]; then BUILD=$BUILD/${MILLSTREAM_SANITIZE//,/-}; fi
export MS_CACHE BUILD

say() { printf '\033[1m==>\033[0m %s\n' "$*" >&2; }
die() { printf 'dev: %s\n' "$*" >&2; exit 1; }
in_ci() { [[ ${CI:-} == true ]]; }
cores() { nproc 2>/dev/null || echo 2; }

# Without a terminal (CI, a pipe) no escape codes.
if [[ ! -t 2 ]]; then say() { printf '==> %s\n' "$*" >&2; }; fi
