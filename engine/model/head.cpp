#include "engine/model/head.h"

#include <algorithm>

#include "engine/layers/sum.h"

namespace ft {
namespace {

Tensor part(const Tensor& t, std::int64_t begin, std::int64_t end) {
  return {t.data + begin * size_of(t.dtype), t.dtype, {end - begin}};
}

// Rows [begin, end) of values that lie row by row in a vector or a matrix, as a matrix.
Tensor rows_of(const Tensor& t, std::int64_t each, std::int64_t begin, std::int64_t end) {
  return {t.data + begin * each * size_of(t.dtype), t.dtype, {end - begin, each}};
}

}  // namespace

// Fewer rows leave a GPU's multiprocessors idle, and each product reads the full matrix.
std::int64_t Head::chunk_rows(Device d) const {
  const bool gpu = d.kind == Device::Kind::cuda;
  const std::int64_t elements = gpu ? 1 << 26 : 1 << 24, most = gpu ? 2048 : 1024;
  return std::clamp(elements / columns() / 64 * 64, std::int64_t{128}, most);
}

// Adds up the sums over the ranks' parts of the vocabulary if each rank has a part; no rank ever has all
// logits of a row.
void Head::cross_entropy(Ctx& c, op::CrossEntropy op) const {
  if (lm_head.cut == Cut::none) return c.ops.run(op);
  Communicator& ranks = *c.tensor();
  Scope scratch(c.scratch);
  const std::int64_t rows = op.targets.numel(), each = op::LogitSums::kCount;
  const Tensor own = c.scratch.take({rows, each}, DType::f32),
               all = c.scratch.take({ranks.size() * rows, each}, DType::f32);
  c.ops.run(op::LogitSums{.y = own, .logits = op.logits, .targets = op.targets, .first = lm_head.first});
  ranks.enter(lm_head.name);
  ranks.all_gather(all, own);
  op.sums = all;
  op.first = lm_head.first;
  op.classes = lm_head.whole;
  c.ops.run(op);
}

// Applies dropout to x, the rows of targets from `begin` on. A mask covers a CPU's chunk of rows, on GPUs
// too, so that both get the same masks. Its name holds the number of the chunk's first row among all ranks'
// targets; c.numbers holds the number of this rank's first row.
void Head::drop(Ctx& c, Tensor x, std::int64_t begin) const {
  if (!dropout.active(c)) return;
  const std::int64_t chunk = chunk_rows({}), first = c.numbers.first + begin, end = first + x.rows();
  for (std::int64_t from = first; from < end;) {
    const std::int64_t row = from % chunk, to = std::min(end, from - row + chunk);
    const Tensor part = x.slice(from - first, to - first);
    c.ops.run(op::Dropout{.y = part,
                          .x = part,
                          .p = dropout.p,
                          .random = dropout.mask(c, mask_of(from - row)),
                          .first_row = row});
    from = to;
  }
}

// Computes the logits of rows [begin, end) among all requested rows.
Head::Chunk Head::project(Ctx& c, Tensor x, const Tensor& all, std::int64_t begin, std::int64_t end,
                          float temperature) const {
  const std::int64_t n = end - begin, C = x.cols();
  Chunk k;
  k.x = c.temporary(n, C);
  k.n = norm ? c.temporary(n, C) : k.x;
  if (norm) k.statistics = norm->take_statistics(c.scratch, n);
  if (projects()) k.logits = c.temporary(n, lm_head.out);
  c.ops.enter(norm ? norm->name() : lm_head.name);
  c.ops.run(op::GatherRows{.y = k.x, .x = x, .rows = part(all, begin, end)});
  if (norm) norm->forward(c, k.n, k.statistics, k.x);
  drop(c, k.n, begin);
  k.read = narrow ? c.temporary(n, lm_head.in) : k.n;
  if (narrow) k.narrow_adapter = narrow->forward(c, k.read, k.n);
  if (!projects()) {
    k.logits = k.read;
    return k;
  }
  k.adapter = lm_head.forward(c, k.logits, k.read, {}, scale / temperature);
  if (cap > 0) c.ops.run(op::SoftCap{.y = k.logits, .x = k.logits, .cap = cap / temperature});
  return k;
}

void Head::each_chunk(Ctx& c, std::int64_t rows, const auto& f) const {
  const std::int64_t chunk = chunk_rows(c.ops.device());
  for (std::int64_t begin = 0; begin < rows; begin += chunk) {
    Scope scratch(c.scratch), saved(c.saved);
    f(begin, std::min(rows, begin + chunk));
  }
}

void Head::run(Ctx& c, Tensor d, Tensor x, const Targets& t, const Loss& loss) const {
  std::visit([&](const auto& of) { compute(c, d, x, t, of); }, loss);
}

void Head::add_up(Ctx& c, Tensor sum, float loss_scale, Tensor d, Tensor x, const Targets& t,
                  const auto& loss_of) const {
  if (d) {
    c.begin(Phase::backward);
    c.ops.run(op::Fill{d, 0});
  }
  each_chunk(c, t.rows.numel(), [&](std::int64_t begin, std::int64_t end) {
    if (d) c.begin(Phase::forward);
    const Chunk k = project(c, x, t.rows, begin, end);
    LogitLoss::Chunk l{.losses = c.scratch.take({end - begin}, DType::f32),
                       .logits = k.logits,
                       .targets = part(t.ids, begin, end),
                       .begin = begin};
    if (d) {
      l.scale = loss_scale * scale;
      l.cap = cap;
      l.gradient = true;
    }
    c.ops.enter("loss");
    loss_of(l);
    c.ops.run(op::Sum{sum, l.losses});
    if (!d) return;
    c.begin(Phase::backward);
    back(c, d, k, part(t.rows, begin, end), begin);
  });
}

// Adds the losses of the targets from `begin` on to the sums of their groups.
void Head::add_groups(Ctx& c, const CrossEntropy& loss, Tensor losses, std::int64_t begin) {
  const std::int64_t end = begin + losses.numel();
  std::int64_t from = 0;
  for (const TargetStretch& s : loss.stretches) {
    const std::int64_t first = std::max(from, begin), last = std::min(s.end, end);
    if (s.group >= 0 && first < last)
      c.ops.run(
          op::Sum{part(loss.group_sums, s.group, s.group + 1), part(losses, first - begin, last - begin)});
    from = s.end;
  }
}

void Head::compute(Ctx& c, Tensor d, Tensor x, const Targets& t, const CrossEntropy& loss) const {
  require(loss.stretches.empty() || loss.stretches.back().end == t.rows.numel(),
          "stretches of other targets than the head has");
  add_up(c, loss.sum, loss.scale, d, x, t, [&](const LogitLoss::Chunk& k) {
    cross_entropy(c, {.loss = k.losses,
                      .logits = k.logits,
                      .targets = k.targets,
                      .scale = k.scale,
                      .smoothing = loss.smoothing,
                      .dynamic = loss.dynamic,
                      .gradient = k.gradient,
                      .cap = k.cap});
    add_groups(c, loss, k.losses, k.begin);
  });
}

void Head::compute(Ctx& c, Tensor d, Tensor x, const Targets& t, const LogitLosses& loss) const {
  require(lm_head.cut == Cut::none, "a loss of whole logits, which no rank has");
  add_up(c, loss.sum, loss.scale, d, x, t, [&](const LogitLoss::Chunk& k) { loss.each->run(c, k); });
}

// Computes logits twice if there is a backward pass: weights are known only when the values of all rows are.
void Head::compute(Ctx& c, Tensor d, Tensor x, const Targets& t, RowLoss* loss) const {
  Scope all(c.scratch);
  if (d) c.begin(Phase::forward);
  const RowValues values = values_of(c, *loss, x, t);
  const std::int64_t each = values.each;
  const Tensor weights = d ? c.scratch.take(values.values.shape, DType::f32) : Tensor{};
  loss->weigh(c, values, weights);
  if (!d) return;
  c.begin(Phase::backward);
  c.ops.run(op::Fill{d, 0});
  each_chunk(c, t.rows.numel(), [&](std::int64_t begin, std::int64_t end) {
    const Chunk k = project(c, x, t.rows, begin, end, loss->temperature());
    if (kind != HeadKind::vocabulary) {
      c.ops.run(op::Cast{k.logits, rows_of(weights, each, begin, end)});
    } else {
      c.ops.enter("loss");
      cross_entropy(c, {.loss = part(values.values, begin, end),
                        .logits = k.logits,
                        .targets = part(t.ids, begin, end),
                        .scale = scale / loss->temperature(),
                        .gradient = true,
                        .cap = cap / loss->temperature(),
                        .weights = part(weights, begin, end)});
    }
    back(c, d, k, part(t.rows, begin, end), begin);
  });
}

void Head::value_of(Ctx& c, const Chunk& k, const RowValues& to, const Targets& t, std::int64_t begin,
                    std::int64_t end) const {
  c.ops.enter("loss");
  if (kind != HeadKind::vocabulary)
    return c.ops.run(op::Cast{rows_of(to.values, to.each, begin, end), k.logits});
  const Tensor values = part(to.values, begin, end), ids = part(t.ids, begin, end);
  cross_entropy(c, {.loss = values, .logits = k.logits, .targets = ids});
  if (to.statistics)
    c.ops.run(op::LogitStatistics{.y = to.statistics.slice(begin, end), .logits = k.logits, .targets = ids});
}

RowValues Head::values_of(Ctx& c, const RowLoss& loss, Tensor x, const Targets& t) const {
  const std::int64_t total = t.rows.numel();
  require(!loss.wants_statistics() || lm_head.cut == Cut::none,
          "statistics of whole logits, which no rank has");
  const std::int64_t each = values_each();
  RowValues v{.values = c.scratch.take({total * each}, DType::f32),
              .each = each,
              .scores = kind != HeadKind::vocabulary};
  if (loss.wants_statistics() && !v.scores)
    v.statistics = c.scratch.take({total, op::LogitStatistics::kCount}, DType::f32);
  each_chunk(c, total, [&](std::int64_t begin, std::int64_t end) {
    value_of(c, project(c, x, t.rows, begin, end, loss.temperature()), v, t, begin, end);
  });
  return v;
}

// Computes a chunk's rows of d from the gradient of its logits, which has replaced the logits.
void Head::back(Ctx& c, Tensor d, const Chunk& k, Tensor rows, std::int64_t begin) const {
  const auto through = [&](const Linear& l, Tensor dy, Tensor x, Tensor adapter) {
    const Tensor dx = c.temporary(x.rows(), x.cols());
    Sum sum(c.ops, dx);
    l.backward(c, sum, dy, x, adapter);
    sum.run();
    return dx;
  };
  Tensor dn = projects() ? through(lm_head, k.logits, k.read, k.adapter) : k.logits;
  if (narrow) dn = through(*narrow, dn, k.n, k.narrow_adapter);
  drop(c, dn, begin);
  Tensor dx = dn;
  if (norm) {
    dx = c.temporary(k.x.rows(), k.x.cols());
    c.ops.run(op::Fill{dx, 0});
    norm->backward(c, dx, dn, k.x, k.statistics);
  }
  c.ops.run(op::ScatterRows{.y = d, .x = dx, .rows = rows});
}

void Head::logits(Ctx& c, Tensor y, Tensor x, Tensor rows) const {
  each_chunk(c, rows.numel(), [&](std::int64_t begin, std::int64_t end) {
    whole_logits(c, y.slice(begin, end), project(c, x, rows, begin, end).logits);
  });
}

// Joins the ranks' parts: each rank adds its part to zeros, and the ranks add up.
void Head::whole_logits(Ctx& c, Tensor y, Tensor logits) const {
  if (lm_head.cut == Cut::none) return c.ops.copy(y, logits);
  const Tensor all = c.scratch.take(y.shape, DType::f32);
  c.ops.run(op::Fill{all, 0});
  c.ops.run(op::Cast{.y = all.columns(lm_head.first, lm_head.first + lm_head.out), .x = logits});
  c.tensor()->enter(lm_head.name);
  c.tensor()->all_reduce(all);
  c.ops.run(op::Cast{.y = y, .x = all});
}

}  // namespace ft
