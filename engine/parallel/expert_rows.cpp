#include "engine/parallel/expert_rows.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "engine/ops/ops.h"

namespace ft {

std::int64_t ExpertRoom::of_one(std::int64_t tokens) const {
  if (factor == 0) return tokens;
  const double even = static_cast<double>(tokens * choices) / static_cast<double>(experts);
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(std::ceil(factor * even)), 1,
                                  std::max<std::int64_t>(1, tokens));
}

ExpertRows ExpertRows::here(std::vector<std::int32_t> starts, std::int64_t room) {
  ExpertRows r;
  r.starts_ = std::move(starts);
  r.room_ = room;
  r.own_ = r.rows();
  return r;
}

// Ranks tell each other how many rows they have for each expert, and how many tokens. From the tokens follows
// the largest number of rows that could have come, and every rank reserves room for that many.
ExpertRows ExpertRows::among(Ctx& c, Communicator& ranks, const std::vector<std::int32_t>& starts,
                             const std::vector<std::int32_t>& counts, std::int64_t tokens,
                             const ExpertRoom& room, std::string_view of) {
  const auto size = static_cast<std::size_t>(ranks.size()), self = static_cast<std::size_t>(ranks.rank());
  const std::size_t experts = starts.size() - 1, own = experts / size, width = experts + 1;
  std::vector<std::int32_t> all(size * width);
  for (std::size_t r = 0; r < size; ++r) {
    std::copy(counts.begin(), counts.end(), all.begin() + static_cast<std::ptrdiff_t>(r * width));
    all[r * width + experts] = static_cast<std::int32_t>(tokens);
  }
  ranks.enter(of);
  ranks.all_gather_host(std::as_writable_bytes(std::span(all)));
  const auto count = [&](std::size_t r, std::size_t e) { return all[r * width + self * own + e]; };

  ExpertRows x;
  x.ranks_ = &ranks;
  x.of_ = of;
  x.own_ = starts.back();
  // (ranks) index of the next row from each rank, among the rows as they arrive
  std::vector<std::int32_t> next;
  std::int32_t rows = 0;
  for (std::size_t r = 0; r < size; ++r) {
    const std::int64_t theirs = all[r * width + experts];
    x.room_ += std::min(room.of_all(theirs), static_cast<std::int64_t>(own) * room.of_one(theirs));
    x.leaving_.push_back(starts[(r + 1) * own] - starts[r * own]);
    next.push_back(rows);
    for (std::size_t e = 0; e < own; ++e) rows += count(r, e);
    x.coming_.push_back(rows - next.back());
  }
  std::vector<std::int32_t> places(static_cast<std::size_t>(rows));
  for (std::size_t e = 0; e < own; ++e) {
    std::int32_t at = x.starts_.back();
    for (std::size_t r = 0; r < size; ++r) {
      const auto first = places.begin() + at;
      std::iota(first, first + count(r, e), next[r]);
      next[r] += count(r, e);
      at += count(r, e);
    }
    x.starts_.push_back(at);
  }
  x.places_ = c.saved.take({x.room_}, DType::i32).elements(0, x.rows());
  if (x.rows() > 0) c.ops.upload(x.places_, places.data());
  return x;
}

// Exchanges rows in turns: in each turn every rank sends to one rank and receives from another.
void ExpertRows::move(Ctx& c, Tensor to, const std::vector<std::int64_t>& coming, Tensor from,
                      const std::vector<std::int64_t>& leaving) const {
  const int size = ranks_->size(), rank = ranks_->rank();
  const auto part = [](const Tensor& t, const std::vector<std::int64_t>& rows, int r) {
    const auto at = rows.begin() + r;
    const std::int64_t first = std::accumulate(rows.begin(), at, std::int64_t{0});
    return *at > 0 ? t.slice(first, first + *at) : Tensor{};
  };
  for (int turn = 1; turn < size; ++turn) {
    const int next = (rank + turn) % size, last = (rank - turn + size) % size;
    const Tensor out = part(from, leaving, next), in = part(to, coming, last);
    if (out || in) ranks_->send_receive(out, next, in, last);
  }
  const Tensor kept = part(from, leaving, rank), here = part(to, coming, rank);
  // A plan receives more rows than it sends.
  if (kept && here) {
    const std::int64_t rows = std::min(kept.rows(), here.rows());
    c.ops.copy(here.slice(0, rows), kept.slice(0, rows));
  }
}

void ExpertRows::there(Ctx& c, Tensor y, Tensor x) const {
  Scope scratch(c.scratch);
  const Tensor come = c.scratch.take({room_, x.cols()}, x.dtype).slice(0, rows());
  ranks_->enter(of_);
  move(c, come, coming_, x, leaving_);
  if (rows() > 0) c.ops.run(op::GatherRows{.y = y, .x = come, .rows = places_});
}

void ExpertRows::back(Ctx& c, Tensor y, Tensor x) const {
  Scope scratch(c.scratch);
  const Tensor leave = c.scratch.take({room_, x.cols()}, x.dtype).slice(0, rows());
  if (rows() > 0) c.ops.run(op::ScatterRows{.y = leave, .x = x, .rows = places_});
  ranks_->enter(of_);
  move(c, y, leaving_, leave, coming_);
}

}  // namespace ft
