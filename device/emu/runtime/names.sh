#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: names.sh LIBCUDART > names_NN.list: the names that NVIDIA's runtime exports. For maintainers: run it on the
# newest runtime of a major version (13: of 13.5, 12: of 12.9), and commit what changed.
set -eu
printf '# Made by names.sh: not to be edited. What libcudart.so.%s exports, in order.\n' "${1##*.so.}"
nm -D --defined-only "$1" | awk '$2 == "T" { sub(/@.*/, "", $3); print $3 }' | LC_ALL=C sort
