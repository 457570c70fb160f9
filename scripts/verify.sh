#!/bin/sh
# Fails when what is committed differs from what the tools would write.
set -eu
cd "$(dirname "$0")/.."
go mod tidy -diff
unformatted=$(git ls-files -z '*.go' | xargs -0 gofmt -l)
[ -z "$unformatted" ] || { echo "run gofmt on:"; echo "$unformatted"; exit 1; }
for f in $(git ls-files 'workers/*/main.go'); do
	n=$(wc -l <"$f")
	[ "$n" -le 50 ] || { echo "$f has $n lines; a worker's main has at most 50"; exit 1; }
done

# The scripts, by shellcheck where there is one (scripts/setup.sh test installs it).
if command -v shellcheck >/dev/null; then
	git ls-files -z '*.sh' ':!pkg/infra/text' | xargs -0 shellcheck
else
	echo "shellcheck is not installed, so the scripts were not checked: scripts/setup.sh test"
fi

# deploy/ is what the manifest says.
fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT
go run ./cmd/fleet generate --out "$fresh" >/dev/null 2>&1 || { go run ./cmd/fleet generate --out "$fresh"; exit 1; }
if ! diff -ru deploy "$fresh"; then
	echo "deploy/ is not what workers/stages.go says; mend it with: go run ./cmd/fleet generate"
	exit 1
fi

# The same alarms as Prometheus evaluates them, where there is its tool.
if command -v promtool >/dev/null; then
	promtool check rules deploy/prometheus/rules.yaml >/dev/null
	promtool test rules pkg/infra/testdata/rules_test.yaml >/dev/null || { promtool test rules pkg/infra/testdata/rules_test.yaml; exit 1; }
	echo "promtool: every alert rings at its edge and not before ($(promtool --version 2>&1 | sed -n '1s/ (.*//p'))"
else
	echo "promtool is not installed, so the rules for Prometheus were not evaluated. Debian's package prometheus has it; without its daemon:"
	echo "  apt-get download prometheus && dpkg -x prometheus_*.deb build/prometheus && export PATH=\$PATH:\$PWD/build/prometheus/usr/bin"
fi

# The templates, by AWS's own linter where there is one.
if command -v cfn-lint >/dev/null; then
	cfn-lint deploy/*.yaml
	echo "cfn-lint: no error, no warning ($(cfn-lint --version))"
else
	echo "cfn-lint is not installed, so the templates were checked by our own rules alone. Get it with: pipx install cfn-lint"
fi
