#!/usr/bin/env bash
# Compiles the Go and the TypeScript program: build.sh [FOLDER], by default build/ beside this script.
# The SDKs are those of this checkout; a built copy of sdk/typescript may be named in MILLSTREAM_TYPESCRIPT.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$here/build}
sdk=${MILLSTREAM_TYPESCRIPT:-$here/../../sdk/typescript}
if [[ ! -e $sdk/dist/src/index.js ]]; then (cd "$sdk" && npm ci && npm run build); fi
mkdir -p "$out/node_modules"
go build -C "$here/routes" -o "$out/routes" .
ln -sfn "$(realpath "$sdk")" "$out/node_modules/millstream"
cp "$here/airports.ts" "$out/"
echo '{"type": "module"}' >"$out/package.json"
"$sdk/node_modules/typescript/bin/tsc" --outDir "$out" --target es2022 --module node16 --moduleResolution node16 --strict --skipLibCheck --types node \
  --typeRoots "$(realpath "$sdk/node_modules")/@types" "$out/airports.ts"
