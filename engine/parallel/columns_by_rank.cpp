#include "engine/parallel/columns_by_rank.h"

#include "engine/ops/ops.h"

namespace ft {

void ColumnsByRank::each(Parts parts, int r, const auto& f) const {
  std::int64_t at = 0;
  for (const Tensor& t : parts) {
    const std::int64_t own = t.cols() / ranks_.size();
    require(own * ranks_.size() == t.cols(), "columns do not divide evenly among the ranks");
    f(t.columns(own * r, own * (r + 1)), at, at + own);
    at += own;
  }
}

void ColumnsByRank::each_run(const Tensor& by_rank, const Tensor& in_order, const auto& f) const {
  const std::int64_t n = by_rank.rows() / ranks_.size();
  for (int r = 0; r < ranks_.size(); ++r)
    RowShare{r, ranks_.size(), by_}.numbers(n).each_run(
        n, [&](std::int64_t begin, std::int64_t end, std::int64_t number) {
          f(by_rank.slice(r * n + begin, r * n + end), in_order.slice(number, number + end - begin));
        });
}

void ColumnsByRank::gather(Ctx& c, Tensor to, Parts parts) const {
  Scope scratch(c.scratch);
  const Tensor leaving = c.scratch.take(to.shape, to.dtype),
               arriving = in_order() ? to : c.scratch.take(to.shape, to.dtype);
  const std::int64_t n = to.rows() / ranks_.size();
  for (int r = 0; r < ranks_.size(); ++r)
    each(parts, r, [&](const Tensor& columns, std::int64_t begin, std::int64_t end) {
      c.ops.copy(leaving.slice(n * r, n * (r + 1)).columns(begin, end), columns);
    });
  ranks_.all_to_all(arriving, leaving);
  if (in_order()) return;
  each_run(arriving, to, [&](const Tensor& by_rank, const Tensor& rows) { c.ops.copy(rows, by_rank); });
}

void ColumnsByRank::give_back(Ctx& c, Parts parts, Tensor from) const {
  Scope scratch(c.scratch);
  const Tensor arriving = c.scratch.take(from.shape, from.dtype),
               leaving = in_order() ? from : c.scratch.take(from.shape, from.dtype);
  if (!in_order())
    each_run(leaving, from, [&](const Tensor& by_rank, const Tensor& rows) { c.ops.copy(by_rank, rows); });
  ranks_.all_to_all(arriving, leaving);
  const std::int64_t n = from.rows() / ranks_.size();
  for (int r = 0; r < ranks_.size(); ++r)
    each(parts, r, [&](const Tensor& columns, std::int64_t begin, std::int64_t end) {
      c.ops.copy(columns, arriving.slice(n * r, n * (r + 1)).columns(begin, end));
    });
}

}  // namespace ft
