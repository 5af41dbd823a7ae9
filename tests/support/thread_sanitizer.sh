#!/usr/bin/env bash
# Runs a test with the thread sanitizer's suppressions (--config=tsan).
#
#   thread_sanitizer.sh COMMAND...
export TSAN_OPTIONS="suppressions=$PWD/tests/support/thread_sanitizer.txt ${TSAN_OPTIONS-}"
exec "$@"
