# The Python side: a tool environment in the cache folder, the SDK from this checkout. Sourced after lib.sh.

# use_python: afterwards `python` is that environment's, and it finds `millstream` in sdk/python and the built programs on the PATH.
use_python() {
  local requirements=$ROOT/sdk/python/requirements-test.txt python stamp venv
  python=$(command -v /usr/bin/python3 || command -v python3) || die "no python3 found; it is in tools/packages"
  stamp=$( ("$python" -VV; cat "$requirements") | sha256sum | cut -c1-12)
  venv=$MS_CACHE/venv-$stamp
  export PIP_CACHE_DIR=${PIP_CACHE_DIR:-$MS_CACHE/pip} PIP_DISABLE_PIP_VERSION_CHECK=1
  if [[ ! -e $venv/.complete ]]; then
    say "making the Python environment $venv"
    mkdir -p "$MS_CACHE"
    rm -rf "$venv"
    "$python" -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --requirement "$requirements" </dev/null >&2
    touch "$venv/.complete"
  fi
  export VIRTUAL_ENV=$venv PATH=$venv/bin:$BUILD/bin:$PATH PYTHONPATH=$ROOT/sdk/python/src PYTHONDONTWRITEBYTECODE=1
}
