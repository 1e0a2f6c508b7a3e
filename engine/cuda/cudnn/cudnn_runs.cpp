#include "engine/cuda/cudnn/cudnn_runs.h"

#include <algorithm>
#include <bit>
#include <map>

namespace ft::cuda {
namespace {

// sequences of other lengths have to be ragged: cuDNN before 9.16 errs otherwise
constexpr std::int64_t kTile = 128;

std::int64_t length(std::span<const std::int32_t> starts, std::size_t sequence) {
  return starts[sequence + 1] - starts[sequence];
}

bool equal_tiles(std::span<const std::int32_t> starts) {
  for (std::size_t s = 0; s + 1 < starts.size(); ++s)
    if (length(starts, s) != length(starts, 0)) return false;
  return length(starts, 0) % kTile == 0;
}

std::int64_t bound(std::int64_t length) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max(length, kTile))));
}

// Groups sequences with the same bounds into one run each.
std::vector<CudnnRun> groups(const Mask& mask) {
  const std::span<const std::int32_t> keys = mask.starts_of_keys();
  const bool ragged = !equal_tiles(mask.starts) || !equal_tiles(keys);
  std::map<std::pair<std::int64_t, std::int64_t>, CudnnRun> by_bounds;
  for (std::size_t s = 0; s + 1 < mask.starts.size(); ++s) {
    std::int64_t rows = length(mask.starts, s), its_keys = length(keys, s);
    if (rows == 0 || its_keys == 0) return {};
    if (ragged) rows = bound(rows), its_keys = bound(its_keys);
    CudnnRun& run = by_bounds[{rows, its_keys}];
    run.rows = rows, run.keys = its_keys, run.ragged = ragged;
    run.sequences.push_back(s);
  }
  std::vector<CudnnRun> all;
  for (auto& [bounds, run] : by_bounds) all.push_back(std::move(run));
  return all;
}

}  // namespace

std::vector<CudnnRun> cudnn_runs(const Mask& mask, const std::function<bool(const CudnnRun&)>& fits) {
  if (mask.starts.size() < 2) return {};
  std::vector<CudnnRun> runs;
  for (const CudnnRun& group : groups(mask))
    for (std::size_t taken = 0; taken < group.sequences.size();) {
      CudnnRun run = group;
      const std::size_t left = group.sequences.size() - taken;
      run.batch = static_cast<std::int64_t>(run.ragged ? std::bit_ceil(left) : std::bit_floor(left));
      while (run.batch > 0 && !fits(run)) run.batch /= 2;
      if (run.batch == 0) return {};
      const auto first = group.sequences.begin() + static_cast<std::ptrdiff_t>(taken);
      const std::size_t count = std::min(left, static_cast<std::size_t>(run.batch));
      run.sequences.assign(first, first + static_cast<std::ptrdiff_t>(count));
      taken += count;
      runs.push_back(std::move(run));
    }
  return runs;
}

CudnnWords::CudnnWords(const CudnnRun& run, const Mask& mask, std::span<const Rows> tensors)
    : apart_((static_cast<std::size_t>(run.batch) / 4 + 1) * 4),
      words_((kOffsets + tensors.size()) * apart_) {
  const auto fill = [&](std::size_t list, auto word_of) {
    for (std::size_t i = 0; i <= static_cast<std::size_t>(run.batch); ++i)
      words_[at(list) + i] = static_cast<std::int32_t>(word_of(i));
  };
  const std::size_t count = run.sequences.size();
  const auto first = [&](std::span<const std::int32_t> starts, std::size_t i) {
    return i < count ? starts[run.sequences[i]] : starts[run.sequences[count - 1] + 1];
  };
  const auto rows_of = [&](std::span<const std::int32_t> starts, std::size_t i) {
    return i < count ? length(starts, run.sequences[i]) : 0;
  };
  const std::span<const std::int32_t> keys = mask.starts_of_keys();
  fill(kFirstRow, [&](std::size_t i) { return first(mask.starts, i); });
  fill(kRows, [&](std::size_t i) { return rows_of(mask.starts, i); });
  fill(kKeys, [&](std::size_t i) { return rows_of(keys, i); });
  for (std::size_t t = 0; t < tensors.size(); ++t)
    fill(kOffsets + t,
         [&](std::size_t i) { return first(tensors[t].keys ? keys : mask.starts, i) * tensors[t].stride; });
}

}  // namespace ft::cuda
