#include "engine/layers/attention/rotary.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/ops/ops.h"

namespace ft {
namespace {

// positions: rows of the tables, whose shape is `shape`.
Positions upload_table(Ctx& c, const std::vector<std::int32_t>& positions,
                       std::span<const std::int32_t> starts, Shape shape, const float* cos,
                       const float* sin) {
  Positions p{upload(c, positions), c.saved.take(shape, DType::f32), c.saved.take(shape, DType::f32), starts};
  c.ops.upload(p.cos, cos);
  c.ops.upload(p.sin, sin);
  return p;
}

}  // namespace

// Rounds angles to f32, as transformers does.
void Rotary::add_position(RotaryTable& t, const std::vector<float>& frequencies,
                          std::int64_t position) const {
  for (const float f : frequencies) {
    const double angle = static_cast<float>(position) * f;
    t.cos.push_back(static_cast<float>(std::cos(angle) * factor_));
    t.sin.push_back(static_cast<float>(std::sin(angle) * factor_));
  }
}

const RotaryTable& Rotary::cover(std::int64_t positions) {
  std::vector<float> frequencies = frequencies_(positions);
  RotaryTable& t = table_;
  if (frequencies != t.frequencies) {
    t.cos.clear();
    t.sin.clear();
    t.frequencies = std::move(frequencies);
  }
  const auto width = static_cast<std::int64_t>(t.frequencies.size());
  most_ = std::max(most_, positions);
  t.cos.reserve(static_cast<std::size_t>(most_ * width));
  t.sin.reserve(static_cast<std::size_t>(most_ * width));
  for (auto p = static_cast<std::int64_t>(t.cos.size()) / width; p < positions; ++p)
    add_position(t, t.frequencies, p);
  return t;
}

RotaryTable Rotary::expect(std::int64_t positions) {
  most_ = std::max(most_, positions);
  return {.cos = {}, .sin = {}, .frequencies = frequencies_(positions)};
}

RotaryTable Rotary::rows(const Continuation& next) const {
  RotaryTable t;
  for (std::size_t i = 0; i < next.slots.size(); ++i) {
    const std::int64_t past = next.past[i], length = past + next.starts[i + 1] - next.starts[i];
    t.frequencies = frequencies_(length);
    for (std::int64_t p = past; p < length; ++p) add_position(t, t.frequencies, p);
  }
  return t;
}

// Uploads a row for each position or, if there are more positions than tokens, for each token. The number of
// rows does not depend on the rows that the rank has.
Positions Rotary::upload_part(Ctx& c, const Batch& b, const RotaryTable& table) {
  const std::int64_t n = b.tokens(), width = std::ssize(table.frequencies);
  if (b.length <= n)
    return upload_table(c, b.positions, b.starts, {b.length, width}, table.cos.data(), table.sin.data());
  std::vector<std::int32_t> rows(b.positions.size());
  std::iota(rows.begin(), rows.end(), 0);
  const auto picked = [&](const std::vector<float>& from) {
    std::vector<float> to;
    if (!c.ops.computes()) return to;
    for (const std::int32_t p : b.positions)
      to.insert(to.end(), from.begin() + p * width, from.begin() + (p + 1) * width);
    return to;
  };
  const std::vector<float> cos = picked(table.cos), sin = picked(table.sin);
  return upload_table(c, rows, b.starts, {n, width}, cos.data(), sin.data());
}

Positions Rotary::upload(Ctx& c, const Batch& b) {
  const std::int64_t length =
      b.length > 0 ? b.length : 1 + *std::max_element(b.positions.begin(), b.positions.end());
  RotaryTable planned;
  if (!c.ops.computes()) planned = expect(length);
  const RotaryTable& table = c.ops.computes() ? cover(length) : planned;
  if (b.length > 0) return upload_part(c, b, table);
  return upload_table(c, b.positions, b.starts, {length, std::ssize(table.frequencies)}, table.cos.data(),
                      table.sin.data());
}

Positions Rotary::upload(Ctx& c, const Continuation& next, const CachedRows& cached) const {
  RotaryTable table;
  if (c.ops.computes())
    table = rows(next);
  else
    table.frequencies = frequencies_(1);
  // Gives every token its own row of the tables.
  std::vector<std::int32_t> own(next.input_ids.size());
  std::iota(own.begin(), own.end(), 0);
  const Shape shape{next.rows(), static_cast<std::int64_t>(table.frequencies.size())};
  Positions p{ft::upload(c, own), c.saved.take(shape, DType::f32), c.saved.take(shape, DType::f32),
              next.starts, &cached};
  c.ops.upload(p.cos, table.cos.data());
  c.ops.upload(p.sin, table.sin.data());
  return p;
}

}  // namespace ft
