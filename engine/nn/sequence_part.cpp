#include "engine/nn/sequence_part.h"

#include <algorithm>

namespace ft {
namespace {

// Rows [r n, (r + 1) n) of a tensor of all ranks' rows.
Tensor rows_of(const Tensor& all, int r, std::int64_t n) { return all.slice(r * n, (r + 1) * n); }

// Elements of a vector that goes on with zeros.
std::vector<std::int32_t> cut(std::vector<std::int32_t> all, std::int64_t first, std::int64_t count) {
  all.resize(static_cast<std::size_t>(std::max(first + count, static_cast<std::int64_t>(all.size()))));
  return {all.begin() + first, all.begin() + first + count};
}

}  // namespace

Batch part_of(const Batch& whole, int part, int parts) {
  require(whole.compared.rows() == 0 && whole.kept_starts.empty() && whole.whole_rows.empty(),
          "ranks share plain sequences only");
  const std::int64_t n = (whole.tokens() + parts - 1) / parts, first = n * part,
                     missing = n * parts - whole.tokens();
  require(whole.tokens() > 0, "ranks share a batch without tokens");
  Batch b;
  b.length = 1 + *std::max_element(whole.positions.begin(), whole.positions.end());
  b.input_ids = cut(whole.input_ids, first, n);
  b.positions = cut(whole.positions, first, n);
  b.starts = whole.starts;
  if (missing > 0) b.starts.push_back(static_cast<std::int32_t>(n * parts));
  for (std::size_t i = 0; i < whole.targets.size(); ++i) {
    const std::int64_t row = whole.target_rows[i] - first;
    if (row < 0 || row >= n) continue;
    b.target_rows.push_back(static_cast<std::int32_t>(row));
    b.targets.push_back(whole.targets[i]);
  }
  return b;
}

HeadsByRank::HeadsByRank(Communicator& ranks, Heads all) : ranks_(ranks), all_(all) {
  const std::int64_t n = ranks.size();
  require(divides(all, n), "ranks cannot share these heads");
  own_ = {all.query / n, std::max<std::int64_t>(1, all.key_value / n), all.width};
}

bool HeadsByRank::divides(Heads h, std::int64_t ranks) {
  return h.query % ranks == 0 && (h.key_value % ranks == 0 || ranks % h.key_value == 0);
}

Tensor HeadsByRank::keys_of(const Tensor& all, int r) const {
  const std::int64_t first = all_.key_value * r / ranks_.size() * all_.width;
  return all.columns(first, first + key_columns());
}

void HeadsByRank::gather(Ctx& c, Tensor to, Tensor q, Tensor k, Tensor v) const {
  Scope scratch(c.scratch);
  const Tensor leaving = c.scratch.take(to.shape, to.dtype);
  for (int r = 0; r < ranks_.size(); ++r) {
    const Tensor theirs = rows_of(leaving, r, q.rows());
    c.ops.copy(queries(theirs), queries_of(q, r));
    c.ops.copy(keys(theirs), keys_of(k, r));
    c.ops.copy(values(theirs), keys_of(v, r));
  }
  ranks_.all_to_all(to, leaving);
}

void HeadsByRank::give_back(Ctx& c, Tensor q, Tensor k, Tensor v, Tensor from) const {
  Scope scratch(c.scratch);
  const Tensor arrived = c.scratch.take(from.shape, from.dtype);
  ranks_.all_to_all(arrived, from);
  for (int r = 0; r < ranks_.size(); ++r) {
    const Tensor theirs = rows_of(arrived, r, q.rows());
    c.ops.copy(queries_of(q, r), queries(theirs));
    const bool another = r > 0 && keys_of(k, r).data == keys_of(k, r - 1).data;
    for (const auto& [to, what] : {std::pair(keys_of(k, r), keys(theirs)), {keys_of(v, r), values(theirs)}})
      another ? c.ops.run(op::Add{to, what}) : c.ops.copy(to, what);
  }
}

void HeadsByRank::gather(Ctx& c, Tensor to, Tensor q) const {
  Scope scratch(c.scratch);
  const Tensor leaving = c.scratch.take(to.shape, to.dtype);
  for (int r = 0; r < ranks_.size(); ++r) c.ops.copy(rows_of(leaving, r, q.rows()), queries_of(q, r));
  ranks_.all_to_all(to, leaving);
}

void HeadsByRank::give_back(Ctx& c, Tensor q, Tensor from) const {
  Scope scratch(c.scratch);
  const Tensor arrived = c.scratch.take(from.shape, from.dtype);
  ranks_.all_to_all(arrived, from);
  for (int r = 0; r < ranks_.size(); ++r) c.ops.copy(queries_of(q, r), rows_of(arrived, r, q.rows()));
}

}  // namespace ft
