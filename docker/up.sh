#!/bin/sh
# Runs the fleet that compose.yaml describes, from the images that there are, and leaves its operator's key in
# build/containers.key, for FLEET_KEY. `up.sh down` ends it; what it has stored stays in its volumes.
set -eu
cd "$(dirname "$0")/.."
addr=${FLEET_ADDR:-127.0.0.1:8080}
compose() {
	if docker compose version >/dev/null 2>&1; then
		docker compose -p stagefleet -f docker/compose.yaml "$@"
	else
		docker-compose -p stagefleet -f docker/compose.yaml "$@"
	fi
}
fail() {
	echo "up.sh: $*" >&2
	exit 1
}
docker info >/dev/null 2>&1 || fail "Docker does not answer; install it (scripts/setup.sh containers) and start its daemon"
if [ "${1:-}" = down ]; then
	compose down
	exit
fi
compose up -d

# The database is made, migrated and given a key; whoever came too early is started again.
mkdir -p build
umask 077
for _ in $(seq 60); do
	if docker cp "$(compose ps -a -q key):/data/key" build/containers.key >/dev/null 2>&1 && bin/fleet health >/dev/null 2>&1; then
		cat <<END
The fleet is up at http://$addr. It asks for a key, which is in build/containers.key:
  export FLEET_KEY=\$(cat build/containers.key)
  bin/fleet submit talk.mp4 --wait
What a job puts out is in the server's volume; copy the folder that it names:
  docker cp "\$(docker ps -q -f name=stagefleet.server)":FOLDER clips
make down-containers ends it and keeps what it has stored.
END
		exit
	fi
	sleep 2
done
compose logs --tail 5 postgres migrate key server
fail "the fleet does not come up within two minutes; its last words are above"
