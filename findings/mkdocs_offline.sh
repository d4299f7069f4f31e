#!/usr/bin/env bash
# mkdocs-material 9.8.2 with mkdocs 1.6.1, the plugin `offline`.
# Guess: a site that is built with the plugin for use without a network asks no other host for anything.
# Saw: every page loads a script from a public host of npm packages, which the same site without the plugin does not.
set -euo pipefail
folder=$(mktemp -d) && trap 'rm -rf "$folder"' EXIT
python3 -m pip install --quiet --disable-pip-version-check --target "$folder/installed" mkdocs==1.6.1 mkdocs-material==9.8.2
mkdir -p "$folder/docs" && echo "# Hello" > "$folder/docs/index.md"
cd "$folder"
build() {
    printf 'site_name: a\ntheme: {name: material, font: false}\nplugins: [%s]\n' "$1" > mkdocs.yml
    PYTHONPATH=$folder/installed NO_MKDOCS_2_WARNING=1 python3 -m mkdocs build --quiet --site-dir "$2" 2> /dev/null
    (grep -oh 'src="https\?://[^/"]*' "$2/index.html" || true) | sort -u | tr '\n' ' '
}
online=$(build "search" with_network)
offline=$(build "search, offline" without_network)
echo "scripts of other hosts: ${online:-none}; with the plugin offline: ${offline:-none}"
[ -z "$online" ] && [[ "$offline" == *https:* ]] || { echo "the behaviour has changed"; exit 1; }
