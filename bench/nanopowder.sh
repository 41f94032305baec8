#!/usr/bin/env bash
# Compares the host programs of the nanopowder simulation; see nanopowder.py --help.
exec "${CLDIST_PYTHON:-python3}" -B "$(dirname "$0")/nanopowder.py" "$@"
