#!/usr/bin/env bash
# Checks the GPU of this machine, and measures it: one table at the end, one JSON
# file beside it. docs/guides/gpu.md says what each row means.
set -euo pipefail

usage() {
  cat <<'END'
Usage: tools/gpu_check.sh [OPTION...]

Checks what the GPU of this machine computes, op by op and over whole training
steps, against the CPU; measures training steps; looks for memory that grows; then
lets Nsight Compute look at kernels, PyTorch run beside, and compute-sanitizer look
on, where they are installed.
The JSON is written anew after every row, and that of the checks while they run lies
beside it, in a file that ends in .checks.json: a run that is cut off leaves both.

  --binary FILE   the checks, built elsewhere; otherwise they are built where
                  bazel and nvcc are, or taken from bazel-bin
  --build FILE    only build that file, to be carried to another machine
  -o FILE         the JSON (default: gpu_check.json); what the programs say goes
                  to a file beside it that ends in .log
  --quick         fewer steps
  --resume        go on where a run with the same -o was cut off: rows that are ok
                  there are kept, the others run
  --only PARTS    these alone, divided by commas: checks, ncu, pytorch, sanitizer.
                  The first three are meant for ten minutes together, the last for
                  a quarter of an hour
  --skip ROW      a group or a row of the checks to leave out, or a case of the ops,
                  as "growth" or "ops bf16 1-100"; may be repeated
  --timeout S     seconds after which a row of the checks is killed (default: 60)
  --seconds S     seconds after which no row of the checks is started, as 500 where
                  a machine is lent for ten minutes
  --help          this text

Environment:
  STOWAGE_CUBLASLT  the file of cuBLASLt, or its folder, where it is not found
  PYTHON            a python3 with PyTorch (default: python3)

Exit codes: 0 all checks are ok, 1 one failed, 2 usage, 3 no device.
END
}

fail() {  # CODE MESSAGE
  echo "gpu_check: $2" >&2
  exit "$1"
}

invoked_from=$PWD
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
resume=() limits=()
binary='' build='' json=gpu_check.json size=full only=checks,ncu,pytorch,sanitizer
while [[ $# -gt 0 ]]; do
  case $1 in
    --binary | --build | --only | --skip | --timeout | --seconds | -o)
      [[ $# -ge 2 ]] || fail 2 "$1 wants a value"
      case $1 in
        --binary) binary=$2 ;;
        --build) build=$2 ;;
        --only) only=$2 ;;
        --skip | --timeout | --seconds) limits+=("$1" "$2") ;;
        -o) json=$2 ;;
      esac
      shift
      ;;
    --quick) size=quick ;;
    --resume) resume=(--resume) ;;
    --help | -h)
      usage
      exit 0
      ;;
    *) fail 2 "there is no option $1; --help lists them" ;;
  esac
  shift
done
python=${PYTHON:-python3}
for part in ${only//,/ }; do
  [[ $part =~ ^(checks|ncu|pytorch|sanitizer)$ ]] ||
    fail 2 "there is no part $part; parts are checks, ncu, pytorch and sanitizer"
done

wants() {  # PART
  [[ ,$only, == *,$1,* ]]
}

# --- The program --------------------------------------------------------------

has_nvcc() {
  command -v nvcc >/dev/null || [[ -x ${CUDA_HOME:-/usr/local/cuda}/bin/nvcc ]]
}

# Builds for any x86-64, with CUDA; prints the file's name.
build_checks() {
  local target=tests/gpu/device_check
  (
    cd "$root"
    bazel build --config=portable --config=cuda "//${target%/*}:${target##*/}" >&2
    echo "$(bazel info --config=portable --config=cuda bazel-bin 2>/dev/null)/$target"
  )
}

if [[ -n $build ]]; then
  command -v bazel >/dev/null || fail 2 "there is no bazel to build with"
  built=$(build_checks) || fail 2 "the checks cannot be built"
  strip -o "$build" "$built"
  chmod 755 "$build"
  echo "$build: $(stat -c %s "$build") bytes; carry it with this script"
  exit 0
fi
if [[ -z $binary ]]; then
  binary=$root/bazel-bin/tests/gpu/device_check
  if command -v bazel >/dev/null && has_nvcc; then
    binary=$(build_checks) || fail 2 "the checks cannot be built"
  fi
fi
[[ -x $binary ]] ||
  fail 2 "there is no program $binary; build it where bazel and nvcc are, with tools/gpu_check.sh --build FILE, and name it with --binary FILE"
[[ $binary == /* ]] || binary=$invoked_from/$binary

# cuBLASLt is looked for by the program, save in the environment of this Python.
if [[ -z ${STOWAGE_CUBLASLT-} && $(ldconfig -p 2>/dev/null) != *libcublasLt.so* ]] &&
  command -v "$python" >/dev/null; then
  wheel=$("$python" -c 'import nvidia; print(list(nvidia.__path__)[0])' 2>/dev/null || true)
  for folder in "$wheel"/cu1*/lib "$wheel/cublas/lib"; do
    if [[ -n $wheel ]] && compgen -G "$folder/libcublasLt.so.*" >/dev/null; then
      export STOWAGE_CUBLASLT=$folder
      break
    fi
  done
fi

# --- Rows ---------------------------------------------------------------------

log=${json%.json}.log
checks=${json%.json}.checks.json
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [[ ${#resume[@]} == 0 ]]; then
  rm -f "$checks" "${checks}l" "$json" "$log"
elif [[ ! -f $checks && -f $json ]]; then
  # As write_json put it there.
  sed -n '/^"checks": /,/^"beside": /p' "$json" | sed '1s/^"checks": //; $d' |
    sed '$s/,$//' >"$checks"
fi
touch "$log" || fail 2 "$log cannot be written"
failed=0
started=$SECONDS
extra_rows=()  # JSON objects
if [[ ${#resume[@]} != 0 && -f $json ]]; then
  # A line each, as write_json writes them.
  mapfile -t extra_rows < <(sed -n 's/^\({"name": .*"status": "ok".*}\),\{0,1\}$/\1/p' "$json")
fi

quoted() {  # TEXT: as a JSON string
  local text=${1//\\/\\\\}
  text=${text//\"/\\\"}
  printf '"%s"' "$(tr -d '\000-\037' <<<"$text")"
}

# Whether a run before has that row, which is then told to be kept.
is_known() {  # NAME
  local known
  for known in "${extra_rows[@]}"; do
    [[ $known == "{\"name\": $(quoted "$1"),"* ]] || continue
    printf '%-28s  %-7s%9s  %s\n' "$1" ok '' 'kept of the run before' >>"$work/table"
    return 0
  done
  return 1
}

write_json() {  # COMPLETE
  {
    printf '{"format": "stowage-gpu-check",\n"version": 1,\n"date": "%s",\n' \
      "$(date -u +%Y-%m-%dT%H:%M:%SZ)"
    printf '"complete": %s,\n"failed": %s,\n' \
      "$1" "$([[ $failed == 0 ]] && echo false || echo true)"
    printf '"checks": %s,\n' "$(cat "$checks" 2>/dev/null || echo null)"
    printf '"beside": [\n'
    for ((i = 0; i < ${#extra_rows[@]}; ++i)); do
      printf '%s%s\n' "${extra_rows[$i]}" "$([[ $((i + 1)) == "${#extra_rows[@]}" ]] || echo ,)"
    done
    printf ']}\n'
  } >"$json" || fail 2 "$json cannot be written"
}

# row NAME STATUS FIGURE [JSON]: as device_check prints and writes its rows.
row() {
  local seconds=$((SECONDS - started))
  [[ $2 != FAIL ]] || failed=1
  printf '%-28s  %-7s%9s  %s\n' "$1" "$2" "$seconds.0" "$3" >>"$work/table"
  echo "$2  $1: $3" >&2
  extra_rows+=("{\"name\": $(quoted "$1"), \"status\": \"$2\", \"figure\": $(quoted "$3"), \"seconds\": $seconds${4:+, \"data\": $4}}")
  write_json false
}

# --- The device ---------------------------------------------------------------

# Several times what they take on an H100. A kernel that never ends holds what waits for
# it; rows that were found before it are in the JSON.
most_seconds=1200

# The table is kept; what the program complains of is shown and logged, all of it
# before the script goes on.
run_checks() {
  local status=0
  timeout --kill-after=20 "$most_seconds" "$binary" --size "$size" -o "$checks" "${resume[@]}" \
    --apart "${limits[@]}" 2>&1 >"$work/table" | tee -a "$log" >&2 || status=${PIPESTATUS[0]}
  case $status in
    0) ;;
    1) failed=1 ;;
    2 | 3) exit "$status" ;;
    124 | 137) row device_check FAIL "was stopped after $most_seconds seconds; see $log for the row before" ;;
    *) row device_check FAIL "ended with status $status; see $log" ;;
  esac
}

if wants checks; then run_checks; fi

# --- Nsight Compute -----------------------------------------------------------

# The first of some programs that can be run.
first_program() {  # FILE...
  local program
  for program in "$@"; do
    if [[ -x $program ]]; then
      echo "$program"
      return
    fi
  done
  return 1
}

# Of the profiler's CSV, which has a line for each metric of each launch: for each kernel
# its launches, nanoseconds and bytes in all, and the mean of its active warps; those that
# took longest first.
by_kernel() {
  awk -F '","' '
    /^"ID"/ {
      gsub(/^"|"$/, "")
      for (i = 1; i <= NF; ++i) column[$i] = i
      next
    }
    /^"[0-9]/ {
      gsub(/"$/, "")
      kernel = $column["Kernel Name"]
      value = $column["Metric Value"]
      gsub(",", "", value)
      if ($column["Metric Name"] ~ /^gpu__time/) { ++launches[kernel]; time[kernel] += value }
      if ($column["Metric Name"] ~ /^dram__bytes/) bytes[kernel] += value
      if ($column["Metric Name"] ~ /^sm__warps/) warps[kernel] += value
    }
    END {
      for (kernel in launches) {
        printf "%.0f\t%d\t%.0f\t%.1f\t%s\n", time[kernel], launches[kernel], bytes[kernel],
          warps[kernel] / launches[kernel], kernel
      }
    }' "$1" | sort -rn
}

# Launches that are looked at: those of a few steps, op by op.
profiled=2000

profile() {  # PROGRAM
  local status=0 kernels='' time launches bytes warps name first=''
  started=$SECONDS
  echo "== $1" >>"$log"
  timeout 240 "$1" --csv --log-file "$work/ncu" --print-units base --launch-count "$profiled" \
    --metrics gpu__time_duration.sum,dram__bytes.sum,sm__warps_active.avg.pct_of_peak_sustained_active \
    "$binary" --size quick --only times >>"$log" 2>&1 || status=$?
  if [[ ! -f $work/ncu ]]; then
    row ncu skipped "ended with status $status; see $log"
    return
  fi
  by_kernel "$work/ncu" >"$work/kernels"
  while IFS=$'\t' read -r time launches bytes warps name; do
    [[ -n $first ]] || first=$(awk "BEGIN {
      printf \"%s first: %d launches, %.3f ms, %.2f TB/s, %.0f %% of warps active\", \"${name//\"/}\",
        $launches, 1e-6 * $time, 1e-3 * $bytes / ($time + 1e-9), $warps}")
    kernels+="${kernels:+, }{\"name\": $(quoted "$name"), \"launches\": $launches, \"nanoseconds\": $time, \"bytes\": $bytes, \"active_warps_percent\": $warps}"
  done <"$work/kernels"
  if [[ -z $kernels ]]; then
    # It may not be allowed to count: that is the machine's, and no failure of ours.
    cat "$work/ncu" >>"$log"
    row ncu skipped "it counted nothing: $(tail -n 1 "$work/ncu")"
  else
    row ncu ok "$(wc -l <"$work/kernels") kernels; $first" "[$kernels]"
  fi
}

if wants ncu && ! is_known ncu; then
  started=$SECONDS
  toolkit=${CUDA_HOME:-/usr/local/cuda}
  if program=$(first_program "$(command -v ncu || true)" {"$toolkit",/usr/local/cuda}/bin/ncu \
    /opt/nvidia/nsight-compute/*/ncu); then
    profile "$program"
  else
    row ncu skipped "there is no ncu"
  fi
fi

# --- PyTorch ------------------------------------------------------------------

# number NAME FILE: of a JSON object in one line.
number() {
  sed -n "s/.*\"$1\": \([0-9.e+-]*\).*/\1/p" "$2"
}

beside() {  # NAME ARGUMENT...
  local name=$1 found
  shift
  is_known "$name" && return
  started=$SECONDS
  echo "== $name" >>"$log"
  if "$python" "$root/bench/pytorch_gpt2.py" "$@" >"$work/pytorch" 2>>"$log"; then
    found=$(tail -n 1 "$work/pytorch")
    echo "$found" >"$work/pytorch"
    row "$name" ok "$(awk "BEGIN {
      printf \"%.3f ms a step, %.0f tokens/s, allocated %.2f GB, reserved %.2f GB\",
        1e3 * $(number median_step_seconds "$work/pytorch"),
        $(number tokens_per_second "$work/pytorch"),
        1e-9 * $(number max_memory_allocated_bytes "$work/pytorch"),
        1e-9 * $(number max_memory_reserved_bytes "$work/pytorch")}")" "$found"
  else
    # Not a failure of ours.
    row "$name" skipped "$(tail -n 1 "$log")"
  fi
}

steps=50
[[ $size == full ]] || steps=15
started=$SECONDS
if ! wants pytorch; then
  :
elif [[ ! -f $root/bench/pytorch_gpt2.py ]]; then
  row pytorch skipped "bench/pytorch_gpt2.py is not here"
elif ! "$python" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
  row pytorch skipped "$python has no PyTorch that finds a GPU"
else
  for dtype in autocast bf16; do
    beside "torch eager $dtype" --dtype "$dtype" --steps "$steps"
    beside "torch compiled $dtype" --dtype "$dtype" --steps "$steps" --compile
  done
  # What llm.c trains: a vocabulary that tensor cores like, 47 words more.
  beside "torch compiled, 50304 words" --dtype autocast --steps "$steps" --compile \
    --vocabulary 50304
fi

# --- compute-sanitizer --------------------------------------------------------

sanitize() {  # PROGRAM TOOL GROUPS
  local status=0 found ours
  started=$SECONDS
  echo "== compute-sanitizer --tool $2" >>"$log"
  timeout 1800 "$1" --tool "$2" --error-exitcode 99 --show-backtrace no --print-limit 1000000 \
    "$binary" --size small --only "$3" >"$work/sanitizer" 2>&1 || status=$?
  cat "$work/sanitizer" >>"$log"
  found=$(grep -E '(ERROR|RACECHECK) SUMMARY' "$work/sanitizer" | tail -n 1) || found="ended with status $status"
  found=${found#*=========}
  # Each product of cuBLASLt is tried once, when a program is bound, on an arena that
  # nobody has written yet. So of what is read unwritten our own kernels alone count.
  if [[ $2 == initcheck && $status == 99 && $found == *SUMMARY* ]]; then
    ours=$(grep -cE '^=========     at .*stowage' "$work/sanitizer") || true
    found="$ours in our kernels; in all$found"
    [[ $ours != 0 ]] || status=0
  fi
  if [[ $status == 0 ]]; then row "sanitizer $2" ok "${found# }"; else row "sanitizer $2" FAIL "${found# }; see $log"; fi
}

for tool in memcheck racecheck initcheck; do
  wants sanitizer || break
  is_known "sanitizer $tool" && continue
  started=$SECONDS
  toolkit=${CUDA_HOME:-/usr/local/cuda}
  if program=$(first_program "$(command -v compute-sanitizer || true)" \
    {"$toolkit",/usr/local/cuda}/{bin,compute-sanitizer}/compute-sanitizer); then
    # initcheck does not see what cuBLASLt stores by the tensor memory accelerator:
    # after a product in 16 bits all that reads its result would seem at fault.
    groups=ops,models
    [[ $tool != initcheck ]] || groups=ops
    sanitize "$program" "$tool" "$groups"
  else
    row "sanitizer $tool" skipped "there is no compute-sanitizer"
  fi
done

# --- One table ----------------------------------------------------------------

write_json true
rm -f "$checks"
cat "$work/table"
if [[ $failed == 0 ]]; then echo "all ok; $json"; else echo "FAILED; $json, $log"; fi
exit "$failed"
