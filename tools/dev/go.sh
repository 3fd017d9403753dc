# The Go side: a Go that is recent enough, caches in the cache folder. Sourced after lib.sh.

# use_go [MINOR]: afterwards `go` is Go 1.MINOR (24) or later: the machine's, or one in the cache folder (Debian 12's own is too old).
use_go() {
  local requirements=$ROOT/tools/dev/go-requirements.txt version="" folder
  if command -v go >/dev/null && [[ -z ${MS_ASSUME_NO_COMMANDS:-} ]]; then version=$(GOTOOLCHAIN=local go env GOVERSION); fi
  if [[ ! $version =~ ^go1\.([0-9]+) || ${BASH_REMATCH[1]} -lt ${1:-24} ]]; then
    folder=$MS_CACHE/go-$(sha256sum "$requirements" | cut -c1-12)
    if [[ ! -e $folder/.complete ]]; then
      say "installing Go into $folder"
      rm -rf "$folder"
      mkdir -p "$folder"
      PIP_CACHE_DIR=${PIP_CACHE_DIR:-$MS_CACHE/pip} /usr/bin/python3 -m venv "$folder/venv"
      "$folder/venv/bin/pip" install --quiet --disable-pip-version-check --no-compile --target "$folder/site" \
        --require-hashes --requirement "$requirements" </dev/null >&2
      touch "$folder/.complete"
    fi
    PATH=$folder/site/go/bin:$PATH
    [[ -x $folder/site/go/bin/go ]] || chmod -R +x "$folder/site/go/bin" "$folder/site/go/pkg/tool"
  fi
  # -modcacherw: so that deleting the cache folder works.
  export PATH GOTOOLCHAIN=local GOMODCACHE=$MS_CACHE/go-mod GOCACHE=$MS_CACHE/go-build GOFLAGS="-mod=readonly -modcacherw -buildvcs=false"
}
