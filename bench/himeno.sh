#!/usr/bin/env bash
# Compares the host programs of the Himeno benchmark; see himeno.py --help.
exec "${CLDIST_PYTHON:-python3}" -B "$(dirname "$0")/himeno.py" "$@"
