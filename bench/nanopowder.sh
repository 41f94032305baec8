#!/usr/bin/env bash
# The nanopowder's host programs against each other; nanopowder.py --help tells more.
exec "${CLDIST_PYTHON:-python3}" -B "$(dirname "$0")/nanopowder.py" "$@"
