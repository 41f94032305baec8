#!/usr/bin/env bash
# The Himeno benchmark's host programs against each other; himeno.py --help tells more.
exec "${CLDIST_PYTHON:-python3}" -B "$(dirname "$0")/himeno.py" "$@"
