#!/bin/sh
# What ft says about itself, as files for man, shells and editors. Usage: share.sh FT FOLDER
set -eu
mkdir -p "$2"
"$1" help --man | gzip -9n >"$2/ft.1.gz"
"$1" help config --schema >"$2/ft-config.schema.json"
"$1" completion bash >"$2/ft.bash"
"$1" completion zsh >"$2/_ft"
"$1" completion fish >"$2/ft.fish"
