#!/usr/bin/env bash
# ./dev images [IMAGE..]: the images of images/recipes.py as OCI archives in build/images, from this checkout's programs.
set -euo pipefail
ROOT=${ROOT:-$(cd "$(dirname "$0")/../.." && pwd)}
export ROOT
cd "$ROOT"
. tools/dev/lib.sh
. tools/dev/packages.sh
. tools/dev/build.sh
. tools/dev/go.sh
. tools/dev/node.sh
need_packages build

# Only what the named images need: a Go and a TypeScript compiler are not needed for the operator's.
wanted=" $* "
needs() { [[ $wanted == "  " || $wanted == *" $1 "* ]]; }
if needs operator || needs sidecar; then build_programs millstream-operator millstream-sidecar millstream; fi
if needs example-go || needs example-typescript; then use_go 24; fi
if needs typescript || needs example-typescript || needs example-go; then
  need_packages sdk
  scratch=$(mktemp -d "${TMPDIR:-/tmp}/millstream-images.XXXXXX")
  trap 'rm -rf "$scratch"' EXIT
  use_typescript "$scratch/typescript"
  export MILLSTREAM_TYPESCRIPT=$scratch/typescript
fi
python3 images/build.py --programs "$BUILD/bin" --out "$BUILD/images" "$@"
