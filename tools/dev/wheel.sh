# The wheel that carries the program. Sourced after python.sh.

# build_wheel FOLDER: puts the wheel of the built program into FOLDER and its path into $WHEEL. The tools are in the cache folder.
build_wheel() {
  local requirements=$ROOT/tools/dev/wheel-requirements.txt venv
  venv=$MS_CACHE/wheel-$( (/usr/bin/python3 -VV; cat "$requirements") | sha256sum | cut -c1-12)
  if [[ ! -e $venv/.complete ]]; then
    say "making the Python environment $venv"
    rm -rf "$venv"
    /usr/bin/python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes --requirement "$requirements" </dev/null >&2
    touch "$venv/.complete"
  fi
  WHEEL=$(PATH=$venv/bin:$PATH PYTHONPATH="" "$venv/bin/python" "$ROOT/sdk/python/wheel/build.py" "$BUILD/bin/millstream" "$1")
}
