#!/bin/sh
# No kernel object may define a weak or unique symbol: the linker would keep one of several copies, and code
# compiled for AVX2 could end in instructions that the CPU lacks. Usage: weak_symbols.sh OBJECT...
set -eu
[ $# -gt 0 ] || { echo "usage: weak_symbols.sh OBJECT..." >&2; exit 2; }
found=$(nm -A --defined-only -C "$@" | grep -E ' [VvWwu] ' || true)
[ -z "$found" ] && exit 0
echo "kernel objects define symbols that the linker merges across targets:" >&2
echo "$found" >&2
exit 1
