#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: peer_versions.sh weir-bench-peer FAKE_MIMALLOC FAKE_JEMALLOC: a malloc's version stands behind "ready", where it tells one.
status=0
expect() {
    [ "$1" = "$2" ] && return
    echo "said '$1', not '$2'" >&2
    status=1
}
expect "$(LD_PRELOAD=$2 "$1" malloc mi_version < /dev/null)" "ready 2.0.9"
expect "$(LD_PRELOAD=$3 "$1" malloc mallctl < /dev/null)" "ready 5.3.0"
expect "$("$1" malloc malloc < /dev/null)" "ready"
expect "$("$1" malloc mi_version < /dev/null)" "it is not installed"
exit $status
