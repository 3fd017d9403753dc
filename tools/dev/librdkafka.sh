#!/usr/bin/env bash
# The Kafka client library, librdkafka >= 2.8: the system's where it is new enough (Debian 13), else 2.8.0 built once from Debian 13's
# source package and kept in the cache folder. Debian 12 has 2.0.2, which stalls for a second whenever its fetch queue is full; Ubuntu 24.04
# has 2.3.0.
#
#   bash tools/dev/librdkafka.sh     builds it if need be (a minute on two cores) and prints where it is: a folder with include/ and lib/,
#                                    or the word "system". cmake/dependencies.cmake calls it.
#   . tools/dev/librdkafka.sh        the same as a function, need_librdkafka; expects lib.sh to be sourced
#
# The system's package lists stay as they are: the source package is fetched with lists and a sources file of its own, checked by apt against
# the Debian keyring and here against the digest below.

RDKAFKA_VERSION=2.8.0
RDKAFKA_PACKAGE=2.8.0-1
RDKAFKA_DSC_SHA256=0e9f099090072fe33da42303e1878f7f4713f91b94aa6523a9d630fe67eb2b51
# TLS and SASL PLAIN, SCRAM and OAUTHBEARER come with OpenSSL, snappy is built in. No curl: tokens are fetched by common/log/kafka/oauth.h,
# and curl would load some ten libraries (LDAP, Kerberos, GnuTLS) into every process.
# WITH_SASL means Cyrus (Kerberos), which nothing here uses.
RDKAFKA_OPTIONS=(-DCMAKE_BUILD_TYPE=None "-DCMAKE_C_FLAGS=-O2 -g1 -fno-omit-frame-pointer" -DCMAKE_POSITION_INDEPENDENT_CODE=ON
  -DRDKAFKA_BUILD_STATIC=ON -DRDKAFKA_BUILD_EXAMPLES=OFF -DRDKAFKA_BUILD_TESTS=OFF
  -DENABLE_LZ4_EXT=ON -DWITH_SSL=ON -DWITH_CURL=OFF -DWITH_ZLIB=ON -DWITH_ZSTD=ON -DWITH_SASL=OFF -DWITH_SASL_SCRAM=ON -DWITH_SASL_OAUTHBEARER=ON)

# What the result depends on: this recipe, the release and the compiler.
rdkafka_folder() {
  local key
  key=$( (echo "$RDKAFKA_PACKAGE $RDKAFKA_DSC_SHA256 ${RDKAFKA_OPTIONS[*]}"; cat /etc/os-release; "${CC:-cc}" --version; uname -m) | sha256sum | cut -c1-12)
  echo "$MS_CACHE/librdkafka-$RDKAFKA_VERSION-$key"
}

# The Debian mirror this machine uses already; another system (Ubuntu) has to name one.
debian_mirror() {
  if [[ -n ${MILLSTREAM_DEBIAN_MIRROR:-} ]]; then echo "$MILLSTREAM_DEBIAN_MIRROR"; return; fi
  local codename
  codename=$(. /etc/os-release && [[ $ID == debian ]] && echo "${VERSION_CODENAME:-}") || true
  [[ -z $codename ]] || apt-get indextargets --format '$(RELEASE) $(REPO_URI)' 'Created-By: Packages' | awk -v c="$codename" '$1 == c { print $2; exit }'
}

# rdkafka_fetch FOLDER: the unpacked source in FOLDER/source.
rdkafka_fetch() (
  set -euo pipefail
  cd "$1"
  local mirror
  mirror=$(debian_mirror)
  [[ -n $mirror ]] || { echo "no Debian mirror is known here: set MILLSTREAM_DEBIAN_MIRROR to one (debian.org/mirror/list), for example http://HOST/debian"; exit 1; }
  mkdir -p lists/partial cache/archives/partial
  cat >debian-13.sources <<SOURCES
Types: deb-src
URIs: $mirror
Suites: trixie
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
SOURCES
  local apt=(apt-get -q -o "Dir::Etc::sourcelist=$PWD/debian-13.sources" -o Dir::Etc::sourceparts=/dev/null -o "Dir::State::lists=$PWD/lists"
    -o "Dir::Cache=$PWD/cache" -o APT::Sandbox::User= -o Acquire::Retries=3)
  "${apt[@]}" update
  "${apt[@]}" source --download-only "librdkafka=$RDKAFKA_PACKAGE"
  echo "$RDKAFKA_DSC_SHA256  librdkafka_$RDKAFKA_PACKAGE.dsc" | sha256sum --check
  dpkg-source --no-check -x "librdkafka_$RDKAFKA_PACKAGE.dsc" source
)

# rdkafka_build WORK RESULT
rdkafka_build() (
  set -euo pipefail
  rdkafka_fetch "$1"
  cmake -S "$1/source" -B "$1/build" -G Ninja "${RDKAFKA_OPTIONS[@]}"
  ninja -C "$1/build" -j "$(nproc 2>/dev/null || echo 2)" rdkafka
  # Features that a missing -dev package would quietly leave out.
  local feature
  for feature in WITH_SSL WITH_ZLIB WITH_ZSTD WITH_SASL_SCRAM WITH_SASL_OAUTHBEARER; do
    grep -Eq "^#define $feature 1" "$1/build/generated/config.h" || { echo "librdkafka was configured without $feature"; exit 1; }
  done
  mkdir -p "$1/result/include/librdkafka" "$1/result/lib"
  cp "$1/source/src/rdkafka.h" "$1/source/src/rdkafka_mock.h" "$1/result/include/librdkafka/"
  cp "$1/build/src/librdkafka.a" "$1/result/lib/"
  cp "$1/source/LICENSES.txt" "$1/result/"
  rm -rf "$2"
  mv "$1/result" "$2"
)

# need_librdkafka: prints "system" or the folder with include/ and lib/, built when it is missing. One process builds, others wait for it.
need_librdkafka() {
  if pkg-config --atleast-version="$RDKAFKA_VERSION" rdkafka 2>/dev/null; then
    echo system
    return
  fi
  local folder work log
  folder=$(rdkafka_folder)
  if [[ ! -e $folder/lib/librdkafka.a ]]; then
    mkdir -p "$MS_CACHE"
    exec 8>"$folder.lock"
    flock 8
    if [[ ! -e $folder/lib/librdkafka.a ]]; then
      say "building librdkafka $RDKAFKA_VERSION from Debian 13's source (once, about a minute)"
      work=$(mktemp -d "${TMPDIR:-/tmp}/librdkafka.XXXXXX")
      log=$MS_CACHE/librdkafka-build.log
      if ! rdkafka_build "$work" "$folder" >"$log" 2>&1 </dev/null; then
        rm -rf "$work"
        tail -30 "$log" >&2
        die "librdkafka could not be built (above; all of it in $log).
Its source package comes from a Debian mirror; set MILLSTREAM_DEBIAN_MIRROR to choose another."
      fi
      rm -rf "$work"
    fi
    exec 8>&-
    rm -f "$folder.lock"
  fi
  echo "$folder"
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then
  set -euo pipefail
  ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
  . "$ROOT/tools/dev/lib.sh"
  need_librdkafka
fi
