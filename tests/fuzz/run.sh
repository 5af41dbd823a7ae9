#!/usr/bin/env bash
# tests/fuzz/run.sh SECONDS [NAME...]: runs the fuzz targets, each for SECONDS, one for each
# processor at a time, from the committed corpus, under the sanitizers. New inputs that reach
# new code are kept in $STOWAGE_FUZZ_CORPUS (default: fuzz-corpus/, which git ignores); inputs
# that break something, in findings/ there. The last line reads "N passed, M failed".
set -uo pipefail
cd "$(dirname "$0")/../.."
if [[ ! ${1:-} =~ ^[0-9]+$ ]]; then
  echo "usage: tests/fuzz/run.sh SECONDS [NAME...]" >&2
  exit 2
fi
seconds=$1
shift
names=("$@")
sources=(tests/fuzz/{checkpoint,formats,models,plans,texts}.cc)
if [[ ${#names[@]} -eq 0 ]]; then
  mapfile -t names < <(grep -ohP '^FUZZ_TARGET\(\K\w+' "${sources[@]}" | sort)
fi
kept=${STOWAGE_FUZZ_CORPUS:-$PWD/fuzz-corpus}

# program NAME: the program that holds the target.
program() {
  basename "$(grep -l "^FUZZ_TARGET($1)" "${sources[@]}")" .cc
}

labels=()
for name in "${names[@]}"; do
  if [[ -z $(program "$name") ]]; then
    echo "[fuzz] there is no target \"$name\"" >&2
    exit 2
  fi
  labels+=("//tests/fuzz:$(program "$name")_fuzz")
done
bazel build --config=fuzz "${labels[@]}" || exit 1
folder=$(bazel info --config=fuzz bazel-bin 2>/dev/null)/tests/fuzz

# The largest input, in bytes: where a format nests, enough to overflow a stack.
longest() {
  case $1 in
    adapter_config | chat_template | checkpoint | examples | graph_text | plan_json | \
      published_model | safetensors | tokenizer_file | weights_index) echo 262144 ;;
    gguf) echo 8192 ;;  # a tensor of every type
    *) echo 4096 ;;
  esac
}

# fuzz NAME PROGRAM: one target. Its output is printed as a whole, behind its name.
fuzz() {
  local name=$1 output
  mkdir -p "$kept/$name"
  output=$(UBSAN_OPTIONS=print_stacktrace=1 FUZZ=$name nice \
    "$folder/$2_fuzz" \
    -max_total_time="$seconds" -timeout=30 -rss_limit_mb=4096 -max_len="$(longest "$name")" \
    -print_final_stats=1 -verbosity=0 \
    -artifact_prefix="$kept/findings/$name-" \
    "$kept/$name" "tests/fuzz/corpus/$name" 2>&1) || touch "$broken/$name"
  printf '== %s, %s s\n%s\n' "$name" "$seconds" "$output"
  [[ ! -e $broken/$name ]] || echo "FAILED: $name"
}

mkdir -p "$kept/findings"
broken=$(mktemp -d)
trap 'rm -rf "$broken"' EXIT
export -f fuzz longest
export seconds kept folder broken
for name in "${names[@]}"; do echo "$name $(program "$name")"; done |
  xargs -P "$(nproc)" -I{} bash -c 'fuzz {}'
failed=$(find "$broken" -type f | wc -l)
echo "$((${#names[@]} - failed)) passed, $failed failed"
((failed == 0))
