#include "engine/parallel/sequence_part.h"

#include <algorithm>

#include "engine/core/error.h"
#include "engine/ops/ops.h"

namespace ft {
namespace {

// Rows [r n, (r + 1) n) of a tensor of all ranks' rows.
Tensor rows_of(const Tensor& all, int r, std::int64_t n) { return all.slice(r * n, (r + 1) * n); }

// Appends elements [first, first + count) of a vector that is continued with zeros.
void append(std::vector<std::int32_t>& to, const std::vector<std::int32_t>& all, std::int64_t first,
            std::int64_t count) {
  const auto there = [&](std::int64_t i) { return all.begin() + std::min(i, std::ssize(all)); };
  const std::size_t size = to.size() + static_cast<std::size_t>(count);
  to.insert(to.end(), there(first), there(first + count));
  to.resize(size);
}

}  // namespace

Batch part_of(const Batch& whole, const RowShare& share) {
  require(whole.compared.rows() == 0 && whole.kept_starts.empty() && whole.kept_source_starts.empty() &&
              whole.whole_rows.empty(),
          "ranks share plain sequences only");
  require(whole.tokens() > 0, "ranks share a batch without tokens");
  const std::int64_t n = share.rows_of(whole.tokens()), all = n * share.ranks;
  Batch b;
  b.length = 1 + *std::max_element(whole.positions.begin(), whole.positions.end());
  b.starts = whole.starts;
  if (all > whole.tokens() || !whole.source_ids.empty()) b.starts.push_back(static_cast<std::int32_t>(all));
  share.numbers(n).each_run(n, [&](std::int64_t begin, std::int64_t end, std::int64_t first) {
    append(b.input_ids, whole.input_ids, first, end - begin);
    append(b.positions, whole.positions, first, end - begin);
    for (std::size_t i = 0; i < whole.targets.size(); ++i) {
      const std::int64_t row = whole.target_rows[i] - first + begin;
      if (row < begin || row >= end) continue;
      b.target_rows.push_back(static_cast<std::int32_t>(row));
      b.targets.push_back(whole.targets[i]);
    }
  });
  if (whole.source_ids.empty()) return b;
  const std::int64_t sources = share.rows_of(std::ssize(whole.source_ids) + 1);
  b.source_starts = whole.source_starts;
  b.source_starts.push_back(static_cast<std::int32_t>(sources * share.ranks));
  share.numbers(sources).each_run(sources, [&](std::int64_t begin, std::int64_t end, std::int64_t first) {
    append(b.source_ids, whole.source_ids, first, end - begin);
  });
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

void refuse_row_share(std::int64_t ranks, const std::string& why) {
  throw UserError(Exit::config, str("distributed.sequence_parallel_size is ", ranks, ": ", why));
}

void refuse_ring(const std::string& why) {
  throw UserError(Exit::config, "distributed.sequence_parallel_type is ring, " + why);
}

void HeadsByRank::require_divisible(Heads heads, std::int64_t ranks) {
  if (divides(heads, ranks)) return;
  std::string sizes;
  for (std::int64_t n = 1; n <= heads.query; ++n)
    if (divides(heads, n)) sizes += str(sizes.empty() ? "" : ", ", n);
  refuse_row_share(ranks, str(ranks, " ranks cannot share ", heads.query, " heads (num_attention_heads) and ",
                              heads.key_value,
                              " key/value heads (num_key_value_heads) evenly\n  set "
                              "distributed.sequence_parallel_type to ring, which does not split heads; sizes "
                              "that would do: ",
                              sizes));
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
