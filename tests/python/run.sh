#!/usr/bin/env bash
# Runs a test by the interpreter that the module is built for:
#
#   run.sh INTERPRETER TEST.py
set -euo pipefail
export PYTHONPATH="$PWD/python:$PWD/tests/python" PYTHONDONTWRITEBYTECODE=1
exec "$1" "$2"
