# Which C++ files a command is about. Sourced after lib.sh.

# cpp_files [--all | FILE...]: the named files, all of them, or (without arguments) those that differ from the last commit.
cpp_files() {
  local git=(git -c "safe.directory=*")
  if [[ ${1:-} == --all ]]; then
    "${git[@]}" ls-files --cached --others --exclude-standard -- '*.h' '*.cc'
  elif [[ $# -gt 0 ]]; then
    printf '%s\n' "$@"
  else
    { "${git[@]}" diff --name-only --diff-filter=d HEAD -- '*.h' '*.cc'
      "${git[@]}" ls-files --others --exclude-standard -- '*.h' '*.cc'; } | sort -u
  fi
}
