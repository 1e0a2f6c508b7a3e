#!/usr/bin/env bash
# One archive with all that bench/gpu needs on another machine: ft with its libraries, the test programs, an older ft to
# compare with, and Python packages. Programs that share code lie side by side, so that it stays at some 30 MB.
#
#     bench/gpu/pack.sh ARCHIVE.tar.xz [--old FT] [--site DIR]     after make gpu-kit
#
# There, in a copy of the repository: tar -xJf ARCHIVE.tar.xz; bench/gpu/call.sh FOLDER [SECONDS]
set -euo pipefail
archive=$(realpath -m "$1")
cd "$(dirname "$0")/../.."
shift
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
mkdir -p "$stage/build/dist"
cp -r build/dist/gpu-kit build/dist/ft-*/ "$stage/build/dist/"
rm -rf "$stage"/build/dist/ft-*/licenses
while [ $# -gt 0 ]; do
  case $1 in
  --old) mkdir -p "$stage/build/old/bin" && cp "$2" "$stage/build/old/bin/ft" ;;
  --site) cp -r "$2" "$stage/build/site" ;;
  *) echo "pack.sh: $1: --old FT or --site DIR" >&2 && exit 2 ;;
  esac
  shift 2
done
cd "$stage"
{
  find build -path '*/bin/ft' -o -path '*/gpu-kit/*' -type f
  find build \( -type f -o -type l \) ! -path '*/bin/ft' ! -path '*/gpu-kit/*' ! -name '*.pyc'
} >files
tar -cf - -T files | xz -T1 --lzma2=preset=6,dict=192MiB >"$archive"
echo "packed   $archive ($(($(stat -c %s "$archive") >> 20)) MiB)"
