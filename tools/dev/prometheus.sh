# Prometheus and promtool, for tests of metrics and alerts. Sourced after lib.sh.

# use_prometheus: afterwards `prometheus` and `promtool` are on the PATH: the machine's, or those of the distribution's package, unpacked into
# the cache folder. The package is not installed: that would start a server on this machine.
use_prometheus() {
  local program folder
  if command -v prometheus >/dev/null && command -v promtool >/dev/null && [[ -z ${MS_ASSUME_NO_COMMANDS:-} ]]; then return; fi
  folder=$MS_CACHE/prometheus-$( (cat /etc/os-release; uname -m) | sha256sum | cut -c1-12)
  if [[ ! -e $folder/.complete ]]; then
    say "fetching Prometheus into $folder"
    rm -rf "$folder"
    mkdir -p "$folder"
    # Lists that are missing, or name a version that is gone, are fetched anew.
    if ! fetch_prometheus "$folder" 2>/dev/null; then
      apt-get update -q </dev/null >&2 || die "apt-get update failed (above)"
      fetch_prometheus "$folder" || die "apt-get download prometheus failed (above)"
    fi
    dpkg -x "$folder"/prometheus_*.deb "$folder"
    rm -f "$folder"/prometheus_*.deb
    for program in prometheus promtool; do
      "$folder/usr/bin/$program" --version >/dev/null 2>&1 || die "$folder/usr/bin/$program does not run here"
    done
    touch "$folder/.complete"
  fi
  export PATH=$folder/usr/bin:$PATH
}

fetch_prometheus() { (cd "$1" && apt-get download -q -o APT::Sandbox::User=root prometheus </dev/null >&2); }
