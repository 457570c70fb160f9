#!/bin/sh
# The test suite: of the packages given, else of all. Packages that run real processes and tools come last and one at a
# time, so that they have the machine to themselves.
set -eu
cd "$(dirname "$0")/.."
alone='/(e2e|demo|pkg/worker)$'
[ $# -gt 0 ] || set -- ./...
packages=$(go list "$@")
together=$(echo "$packages" | grep -vE "$alone" || true)
singly=$(echo "$packages" | grep -E "$alone" || true)
go vet "$@"
# shellcheck disable=SC2086 # package lists are meant to split
[ -z "$together" ] || go test -race -shuffle=on -timeout 20m $together
# shellcheck disable=SC2086
[ -z "$singly" ] || go test -race -shuffle=on -timeout 20m -p 1 $singly
