#!/usr/bin/env bash
# Checks the proof of the certificates' checker, extracts and compiles it, and runs both
# checkers on certificates and on damaged ones.
#
#   tests/certificates/prove.sh STOWAGE [OPTIONS of mutate.py]
#
# Fails if the proof depends on any axiom.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
stowage=$(realpath "$1")
shift
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cp "$here"/*.v "$here"/check_certificates.ml "$folder"
cd "$folder"
for file in claims checker sums order_bound plan; do
  coqc -q -Q . Certificates "$file.v" | tee -a assumptions
done
if [[ $(grep -c '^Closed under the global context$' assumptions) != 2 ]]; then
  echo "[certificates] the proof depends on axioms" >&2
  exit 1
fi
ocamlopt checker.mli checker.ml check_certificates.ml -o check_certificates
python3 "$here/mutate.py" "$stowage" --also "$folder/check_certificates" "$@"
