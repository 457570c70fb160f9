#!/bin/sh
# Every fuzz target of the repository for some time each; TIME=60s, PACKAGE=./pkg/... to choose. A fault stops it, and go test says
# where it has kept the input that shows it.
set -eu
cd "$(dirname "$0")/.."
for package in $(go list "${PACKAGE:-./...}"); do
	for target in $(go test -list '^Fuzz' "$package" | grep '^Fuzz' || true); do
		echo "$package $target"
		go test -run '^$' -fuzz "^$target\$" -fuzztime "${TIME:-60s}" "$package"
	done
done
