# The Node.js side: development packages of sdk/typescript in the cache folder. Sourced after lib.sh.

# use_typescript FOLDER: afterwards FOLDER has a copy of sdk/typescript, built into its dist/.
use_typescript() {
  local folder=$1 package=$ROOT/sdk/typescript modules
  modules=$MS_CACHE/node-$(cat "$package/package.json" "$package/package-lock.json" | sha256sum | cut -c1-12)
  if [[ ! -e $modules/.complete ]]; then
    say "installing the development packages of sdk/typescript into $modules"
    rm -rf "$modules"
    mkdir -p "$modules"
    cp "$package/package.json" "$package/package-lock.json" "$modules/"
    npm ci --prefix "$modules" --cache "$MS_CACHE/npm" --no-audit --no-fund --ignore-scripts </dev/null >&2
    touch "$modules/.complete"
  fi
  mkdir -p "$folder"
  cp -r "$package/." "$folder/"
  rm -rf "$folder/node_modules" "$folder/dist"
  ln -s "$modules/node_modules" "$folder/node_modules"
  (cd "$folder" && node_modules/.bin/tsc -p .)
  export MILLSTREAM_SDK_TYPESCRIPT=$package
}
