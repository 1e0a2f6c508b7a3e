#include "engine/parallel/cut.h"

#include "engine/core/error.h"
#include "engine/ops/ops.h"
#include "engine/pass/context.h"

namespace ft {

AxisPart part_of_axis(std::int64_t n, std::int64_t step, TensorRank t, const Parts& parts) {
  AxisPart k;
  std::int64_t at = 0;
  for (const std::int64_t part : parts.empty() ? Parts{n} : parts) {
    k.runs.push_back({(at + t.first_of(part)) * step, t.count_of(part) * step});
    k.places += t.count_of(part);
    at += part;
  }
  require(at == n, "parts of another axis");
  return k;
}

void cut(Parameter& p, int axis, TensorRank t, const Parts& parts) {
  if (t.size == 1) return;
  require(!p.portion && axis < p.shape.rank, "a parameter is cut once, along an axis of its own");
  std::int64_t inner = 1;  // elements per place of the axis
  for (int i = axis + 1; i < p.shape.rank; ++i) inner *= p.shape[i];
  AxisPart kept = part_of_axis(p.shape[axis], inner, t, parts);
  keep_portion(p, {p.shape, p.shape[axis] * inner, std::move(kept.runs)});
  p.shape.dims[axis] = kept.places;
}

void keep_portion(Parameter& p, const Portion& s) {
  p.portion = s;
  if (s.all < s.whole.numel() || s.runs.size() > 1)
    p.stored = {};  // its bytes are not contiguous in the file
  else if (p.stored && !s.runs.empty())
    p.stored.at += s.runs[0].begin * size_of(p.dtype);
}

void refuse_cut(const std::string& why) {
  throw UserError(Exit::config, "distributed.tensor_parallel_size: " + why);
}

std::string divisors(std::int64_t n) {
  std::string all;
  for (std::int64_t d = 1; d <= n; ++d)
    if (n % d == 0) all += str(all.empty() ? "" : ", ", d);
  return all;
}

void require_heads(std::int64_t heads, const char* called, TensorRank t) {
  if (heads % t.size == 0) return;
  refuse_cut(str(t.size, " ranks cannot share ", heads, " heads (", called,
                 ") evenly; sizes that would do: ", divisors(heads)));
}

// Rounds partial sums of narrower types once: communicators add up only dense f32.
void add_up(Ctx& c, Tensor x, std::string_view of) {
  Communicator* const ranks = c.tensor();
  require(ranks != nullptr, "parts of a sum, and nobody has the others");
  ranks->enter(of);
  if (x.dtype == DType::f32 && x.dense()) return ranks->all_reduce(x);
  Scope scratch(c.scratch);
  const Tensor all = c.scratch.take({x.rows(), x.cols()}, DType::f32);
  c.ops.run(op::Cast{.y = all, .x = x});
  ranks->all_reduce(all);
  c.ops.run(op::Cast{.y = x, .x = all});
}

}  // namespace ft
