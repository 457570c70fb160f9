#!/bin/sh
# Builds the images: stagefleet/fleet, stagefleet/postgres and stagefleet/NAME for each stage, or those that are named.
# BASE and GO choose what they are built on; by default Debian's and Go's official images, or, where their registry does
# not answer, what docker/base.sh makes.
set -eu
cd "$(dirname "$0")/.."
docker info >/dev/null 2>&1 || { echo "images.sh: Docker does not answer; install it (scripts/setup.sh containers) and start its daemon" >&2; exit 1; }
if [ -z "${BASE:-}" ] || [ -z "${GO:-}" ]; then
	if ! docker image inspect stagefleet/debian stagefleet/go >/dev/null 2>&1 &&
		docker pull -q debian:bookworm-slim >/dev/null 2>&1 && docker pull -q golang:1.26-bookworm >/dev/null 2>&1; then
		BASE=debian:bookworm-slim GO=golang:1.26-bookworm
	else
		./docker/base.sh
		BASE=stagefleet/debian GO=stagefleet/go
	fi
fi
build() { # name, Dockerfile, further arguments
	name=$1 file=$2
	shift 2
	docker build -q --network=host -f "docker/$file" --build-arg "BASE=$BASE" --build-arg "GO=$GO" \
		--build-arg "GOPROXY=$(go env GOPROXY)" -t "stagefleet/$name" "$@" . >/dev/null
	docker image inspect --format "stagefleet/$name {{.Size}} bytes" "stagefleet/$name"
}
if [ $# = 0 ]; then
	set -- fleet postgres
	for main in workers/*/main.go; do
		set -- "$@" "$(basename "$(dirname "$main")")"
	done
fi
for name in "$@"; do
	case $name in
	fleet | postgres) build "$name" "$name.Dockerfile" ;;
	*)
		target=bare
		grep -q "^$name: *[^ ]" scripts/tools.txt && target=tools
		build "$name" worker.Dockerfile --target "$target" --build-arg "STAGE=$name"
		;;
	esac
done
