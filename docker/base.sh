#!/bin/sh
# Makes the images that the Dockerfiles build on, from Debian's mirror and this machine's Go, where no registry can be
# reached: stagefleet/debian (BASE) and stagefleet/go (GO). Needs root, debootstrap and docker; about two minutes.
set -eu
suite=bookworm
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
if docker image inspect stagefleet/debian stagefleet/go >/dev/null 2>&1; then
	exit 0
fi
command -v debootstrap >/dev/null || { echo "base.sh: debootstrap is not installed (apt-get install debootstrap)" >&2; exit 1; }
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
debootstrap --variant=minbase --include=ca-certificates "$suite" "$root" "$mirror" >/dev/null
echo "deb $mirror $suite main" >"$root/etc/apt/sources.list"
rm -rf "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/* "$root"/usr/share/doc "$root"/usr/share/man "$root"/usr/share/locale
tar -C "$root" -c . | docker import - stagefleet/debian >/dev/null

# The toolchain trusts whom this machine trusts: a module proxy may be known to it alone. No image that is run inherits that.
cp -R "$(go env GOROOT)" "$root/usr/local/go"
cp "${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}" "$root/usr/local/go/trusted.crt"
tar -C "$root" -c . | docker import --change 'ENV PATH=/usr/local/go/bin:/usr/sbin:/usr/bin:/sbin:/bin' \
	--change 'ENV GOTOOLCHAIN=local' --change 'ENV SSL_CERT_FILE=/usr/local/go/trusted.crt' - stagefleet/go >/dev/null
