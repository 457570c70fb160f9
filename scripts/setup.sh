#!/bin/sh
# Installs what the stages run and what the tests need. Safe to run again: it asks dpkg first and
# calls apt only for what is missing.
set -eu
packages="ffmpeg pocketsphinx pocketsphinx-en-us tesseract-ocr aubio-tools flite fonts-dejavu-core"
missing=""
for p in $packages; do
	dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'install ok installed' || missing="$missing $p"
done
[ -z "$missing" ] && exit 0
echo "installing:$missing"
sudo=""
[ "$(id -u)" = 0 ] || sudo=sudo
export DEBIAN_FRONTEND=noninteractive
$sudo apt-get update -qq
# shellcheck disable=SC2086 # the list is meant to split
$sudo apt-get install -y -qq --no-install-recommends $missing >/dev/null
