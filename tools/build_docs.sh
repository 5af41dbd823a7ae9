#!/usr/bin/env bash
# Builds the documents as a site in out/docs; a broken link or anchor is an error.
#
#   tools/build_docs.sh            out/docs/index.html, which needs no server
#   tools/build_docs.sh --serve    serves it, with a search, and builds it again after each change
#
# The first run installs mkdocs-material, in the versions of tools/docs_requirements.txt, into
# an environment of its own (STOWAGE_DOCS_VENV, by default in ~/.cache/stowage). Later runs
# need no network.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=${STOWAGE_DOCS_VENV-${XDG_CACHE_HOME-$HOME/.cache}/stowage/docs}
if ! cmp -s tools/docs_requirements.txt "$venv/requirements.txt"; then
  python3 -m venv --clear "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check -r tools/docs_requirements.txt
  cp tools/docs_requirements.txt "$venv/requirements.txt"
fi
export NO_MKDOCS_2_WARNING=1
if [[ ${1-} == --serve ]]; then
  exec "$venv/bin/mkdocs" serve --quiet
fi
"$venv/bin/mkdocs" build 2> >(grep -v '^INFO' >&2)  # --quiet would not be strict
echo "out/docs/index.html: $(find out/docs -name '*.html' | wc -l) pages"
