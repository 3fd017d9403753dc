# ./dev --in-container COMMAND: the same command in a Debian 12 container. Sourced after lib.sh and packages.sh.

container_program() {
  local program
  for program in ${MILLSTREAM_CONTAINER:-docker podman}; do
    if command -v "$program" >/dev/null; then echo "$program"; return; fi
  done
  die "neither docker nor podman is installed; one of them is needed for --in-container"
}

# run_in_container COMMAND ARG...: the checkout is mounted at its own path, the caches in a folder of their own (programs of another
# release must not mix with this system's). Files belong to the calling user afterwards.
run_in_container() {
  local program image caches user
  program=$(container_program)
  image=millstream-dev:$( (cat "$ROOT/tools/packages"; cat "$ROOT/tools/dev/container.sh") | sha256sum | cut -c1-12)
  caches=$MS_CACHE/container
  mkdir -p "$caches"

  if ! "$program" image inspect "$image" >/dev/null 2>&1; then
    say "making the image $image (Debian 12 with the packages of tools/packages)"
    local empty
    empty=$(mktemp -d)
    "$program" build --tag "$image" --file - "$empty" <<DOCKERFILE || die "the image could not be made (above)"
FROM docker.io/library/debian:12
ENV DEBIAN_FRONTEND=noninteractive
RUN apt-get update && apt-get install -y --no-install-recommends $(MILLSTREAM_RELEASE=debian-12 listed_everywhere | tr '\n' ' ') && rm -rf /var/lib/apt/lists/*
DOCKERFILE
    rmdir "$empty"
  fi

  # Docker: be the calling user, so that build/ is not root's. Podman without root: its root is the calling user already.
  user=()
  if [[ $program == docker ]]; then user=(--user "$(id -u):$(id -g)"); fi
  local terminal=()
  if [[ -t 0 && -t 1 ]]; then terminal=(--interactive --tty); fi
  say "running ./dev ${*:-help} in $image"
  "$program" run --rm --init "${terminal[@]}" "${user[@]}" \
    --volume "$ROOT:$ROOT" --workdir "$ROOT" \
    --volume "$caches:/cache" --env XDG_CACHE_HOME=/cache --env HOME=/tmp \
    --env MILLSTREAM_BUILD_DIR="$ROOT/build/debian-12" --env MILLSTREAM_SANITIZE --env CI \
    "$image" ./dev "$@"
}

# Every package, also those that are installed only where their command is missing: a fresh image has none.
listed_everywhere() { MS_ASSUME_NO_COMMANDS=1 listed_packages build test kafka data lint; }
