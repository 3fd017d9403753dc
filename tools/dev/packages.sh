# Installs the packages of tools/packages. Sourced after lib.sh.

# "debian-12", "debian-13", "ubuntu-24.04"; anything else is not installed by itself.
release() {
  local id version
  id=$(. /etc/os-release 2>/dev/null && echo "${ID:-}")
  version=$(. /etc/os-release 2>/dev/null && echo "${VERSION_ID:-}")
  echo "${MILLSTREAM_RELEASE:-$id-$version}"  # the variable is for the tests of this file
}

known_release() { [[ " debian-12 debian-13 ubuntu-24.04 " == *" $(release) "* ]]; }

# The packages of the given groups that this release needs, one a line.
listed_packages() {
  local package condition group _
  while read -r package condition group _; do
    [[ -z $package || $package == \#* ]] && continue
    [[ " $* " == *" $group "* ]] || continue
    case $condition in
      -) ;;
      unless:*) [[ -z ${MS_ASSUME_NO_COMMANDS:-} ]] && command -v "${condition#unless:}" >/dev/null 2>&1 && continue ;;
      *) [[ ",$condition," == *",$(release),"* ]] || continue ;;
    esac
    echo "$package"
  done <"$ROOT/tools/packages"
}

missing_packages() {
  local installed
  installed=$(dpkg-query -W -f '${db:Status-Abbrev} ${Package}\n' 2>/dev/null | sed -n 's/^ii  *//p' | sort -u)
  comm -23 <(listed_packages "$@" | sort -u) <(echo "$installed")
}

# need_packages GROUP...: afterwards they are installed, or the script has ended with the way out.
need_packages() {
  if ! known_release; then
    die "$(release) is not a system this script installs packages on (Debian 12 and 13, Ubuntu 24.04 are).
Run it in a container instead, with docker or podman:  ./dev --in-container COMMAND"
  fi
  local missing
  missing=$(missing_packages "$@" | tr '\n' ' ')
  [[ -z ${missing// /} ]] && return 0
  local install="apt-get install -y --no-install-recommends ${missing% }"
  if [[ $(id -u) != 0 ]]; then
    die "packages are missing, and installing them needs root. Run this once, then the same command again:
  sudo apt-get update && sudo $install"
  fi
  say "installing packages: $missing"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -q </dev/null >&2 || die "apt-get update failed (above)"
  # shellcheck disable=SC2086  # one word per package
  $install -q </dev/null >&2 || die "installing packages failed (above)"
}
