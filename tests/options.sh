#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: options.sh PROGRAM 'ARGUMENTS'...: --help gives a usage and 0; each of the other lists of arguments is refused by
# a sentence, and 2, before anything is done.
program=$1
shift
status=0
wrong() { echo "$*" >&2; status=1; }

said=$("$program" --help) || wrong "--help ends with $?"
case $said in usage:*) ;; *) wrong "--help gives no usage but: $said" ;; esac
for arguments; do
    # shellcheck disable=SC2086
    said=$("$program" $arguments 2>&1 >/dev/null)
    got=$?
    [ $got -eq 2 ] || wrong "'$arguments' ends with $got"
    [ -n "$said" ] || wrong "'$arguments' is refused without a word"
done
exit $status
