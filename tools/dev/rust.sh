# The Rust side: a compiler that is recent enough, crates and built files in the cache folder. Sourced after lib.sh.

# use_rust: afterwards `cargo` is of Rust 1.75 or later, with clippy and rustfmt: the machine's, or the packages of this release.
use_rust() {
  local version=""
  # Cargo's folder may be missing on the PATH of a shell that is not a login shell.
  [[ -d ${CARGO_HOME:-$HOME/.cargo}/bin ]] && PATH=${CARGO_HOME:-$HOME/.cargo}/bin:$PATH
  if [[ -z ${MS_ASSUME_NO_COMMANDS:-} ]] && cargo fmt --version >/dev/null 2>&1 && cargo clippy --version >/dev/null 2>&1; then
    version=$(rustc --version 2>/dev/null) || version=""
  fi
  if [[ ! $version =~ ^rustc\ 1\.([0-9]+) || ${BASH_REMATCH[1]} -lt 75 ]]; then
    need_packages rust
    if [[ -n $version || -n ${MS_ASSUME_NO_COMMANDS:-} ]]; then PATH=/usr/bin:$PATH; fi
  fi
  export PATH CARGO_HOME=$MS_CACHE/cargo CARGO_TARGET_DIR=$MS_CACHE/cargo-target CARGO_INCREMENTAL=0 CARGO_TERM_COLOR=never
}
