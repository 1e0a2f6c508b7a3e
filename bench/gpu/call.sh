#!/usr/bin/env bash
# The measurements that are due, in one call on a machine with a GPU: tests, the kinds of work that have not run, FP8 beside
# bf16, the ft before beside this one, and then as much of part 2 as time is left for.
#
#     bench/gpu/call.sh FOLDER [SECONDS]     FOLDER gets the summaries and one archive; 485 seconds
set -uo pipefail
out=$(realpath -m "$1") end=${2:-485}
cd "$(dirname "$0")/../.."
mkdir -p "$out"
export PYTHONUNBUFFERED=1 PYTHONPATH=$PWD/build/site
kit="python3 bench/gpu"

# Weights are made on the CPU while tests run.
$kit --part 4 --only 'models are made' --results build/models --budget 150 &
$kit --part 1 --budget 75 --only 'op tests|goldens|NCCL with' --carry "$out"
$kit --part 3 --budget 40 --only 'models of|gemma4|deepseek|glm4-moe-lite|fp8|full, bf16|adamw|lion' --carry "$out"
wait
$kit --part 4 --budget 150 --only 'right|beside bf16|8 layers|turn 1' --carry "$out"
if [ -x build/old/bin/ft ]; then
  ln -sfn ../dist/"$(basename build/dist/ft-*/)"/lib build/old/lib
  $kit --compare build/old/bin/ft --budget 50 --only 'old and new: full|old and new: T5' --carry "$out"
fi
left=$((end - SECONDS))
[ $left -lt 20 ] || $kit --part 2 --budget $left --only 'ceilings|ft: |PyTorch: LoRA|Liger: LoRA|TRL' --carry "$out"
rm -f "$out"/*.tar.gz
tar -czf "$out/results.tar.gz" bench/results/gpu_*
echo "all      $SECONDS s"
