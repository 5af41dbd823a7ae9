# What .ci/run and .ci/nightly have in common: stages that are counted and timed. A check
# without test cases counts as one. Sourced by bash, in the root of the checkout.
#
#   suite tests ./test.sh       # the last line holds the counts
#   check format formatted      # one pass or one failure
#   finish                      # prints the summary; fails if something failed
#
# .ci/seconds has what stages took with nothing cached, on two processors. The summary
# says where one has grown by more than a tenth, and by ten seconds.

log=$(mktemp)
trap 'rm -f "$log"' EXIT
passed=0
failed=0
summary=()
noted_at=0

note() {  # NAME PASSED FAILED
  local took=$((SECONDS - noted_at)) known grown=
  noted_at=$SECONDS
  passed=$((passed + $2))
  failed=$((failed + $3))
  known=$(awk -v name="$1" '$1 == name { print $2 }' .ci/seconds)
  if [[ $known && $took -gt $((known + known / 10)) && $took -gt $((known + 10)) ]]; then
    grown="; grown from $known s by $(((took - known) * 100 / known)) %"
  fi
  summary+=("$(printf '%-14s %5d passed, %d failed, in %d s%s' "$1" "$2" "$3" "$took" "$grown")")
}

# A command that fails is a failure, whatever it has counted.
suite() {  # NAME COMMAND...
  local name=$1 last status
  shift
  echo "== $name"
  "$@" | tee "$log"
  status=${PIPESTATUS[0]}
  last=$(tail -n 1 "$log")
  if [[ ! $last =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed$ ]]; then
    note "$name" 0 1
  elif [[ $status != 0 && ${BASH_REMATCH[2]} == 0 ]]; then
    note "$name" "${BASH_REMATCH[1]}" 1
  else
    note "$name" "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}"
  fi
}

check() {  # NAME COMMAND...
  local name=$1
  shift
  echo "== $name"
  if "$@"; then note "$name" 1 0; else note "$name" 0 1; fi
}

finish() {
  echo "== summary, after $SECONDS s"
  printf '%s\n' "${summary[@]}"
  echo "$passed passed, $failed failed"
  [[ $failed == 0 && $passed -gt 0 ]]
}
