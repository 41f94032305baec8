#!/usr/bin/env bash
# Writes the distribution's package sources of this machine to FOLDER/sources.list, and its settings for downloads to
# FOLDER/apt.conf.
# Usage: apt_settings.sh FOLDER
set -euo pipefail
# shellcheck disable=SC2016
apt-get indextargets --format '$(SIGNED_BY)|$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' \
    "Origin: $(. /etc/os-release && echo "${NAME%% *}")" |
    sed -E 's/^\$\([^|]*\||^\|//; s/^(.*)\|/[signed-by=\1] /; s/^/deb /' >"$1/sources.list"
apt-config dump | grep -E '^Acquire::(Check|Retries|https?::)' >"$1/apt.conf" || true
[ -s "$1/sources.list" ] || { echo "SKIP: apt-get knows no package sources of this distribution; is apt-get update needed?"; exit 77; }
