#include "engine/cpu/cpu_ops.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>

#include "engine/cpu/memory.h"
#include "engine/ops/check.h"

namespace ft::cpu {
namespace {

View view_of(const Tensor& t) { return {t.data, t.dtype, t.rows(), t.cols(), t.stride}; }
float* floats(const Tensor& t) { return t ? t.as<float>() : nullptr; }

// Indices come from data: a wrong one must not become a wild access.
const std::int32_t* indices(const Tensor& t, std::int64_t limit, const char* what) {
  const std::int32_t* p = t.as<std::int32_t>();
  for (std::int64_t i = 0; i < t.numel(); ++i) require(0 <= p[i] && p[i] < limit, what);
  return p;
}

// y[to(i)] = x[from(i)] for n rows, as bytes.
template <class To, class From>
void copy_rows(const Tensor& y, const Tensor& x, std::int64_t n, Team& team, To to, From from) {
  const std::int64_t row = x.cols() * size_of(x.dtype);
  const std::int64_t y_step = y.stride * size_of(y.dtype), x_step = x.stride * size_of(x.dtype);
  share_out(team, n, n * row < 65536, [&](std::int64_t i, int) {
    std::memcpy(y.data + to(i) * y_step, x.data + from(i) * x_step, std::size_t(row));
  });
}

}  // namespace

CpuOps::CpuOps(int threads, Target target) : CpuOps(threads, kernels_of(target)) {}
CpuOps::CpuOps(int threads, const Kernels& kernels)
    : team_(threads), leaf_(kernels.leaf), products_(kernels.products, team_), attention_(kernels, team_) {}

Buffer CpuOps::allocate(std::int64_t bytes) { return reserve(bytes); }

std::int64_t CpuOps::free_memory() const {
  const std::int64_t bytes = available_memory();
  return bytes == std::numeric_limits<std::int64_t>::max() ? 0 : bytes;
}

void CpuOps::copy(Tensor y, Tensor x) {
  check::copy(y, x);
  const auto same = [](std::int64_t i) { return i; };
  if (y.dense() && x.dense()) {  // as rows of a page
    const std::int64_t bytes = y.bytes(), page = 65536;
    const Tensor to(y.data, DType::u8, {bytes / page, page}), from(x.data, DType::u8, {bytes / page, page});
    copy_rows(to, from, bytes / page, team_, same, same);
    const std::int64_t done = bytes / page * page;
    std::memcpy(y.data + done, x.data + done, std::size_t(bytes - done));
  } else {
    copy_rows(y, x, y.rows(), team_, same, same);
  }
}

void CpuOps::upload(Tensor y, const void* host) {
  check::transfer(y);
  if (y.bytes() > 0) std::memcpy(y.data, host, std::size_t(y.bytes()));
}

void CpuOps::download(void* host, Tensor x) {
  check::transfer(x);
  if (x.bytes() > 0) std::memcpy(host, x.data, std::size_t(x.bytes()));
}

void CpuOps::fill(Tensor y, float value) {
  check::fill(y);
  leaf_.fill(view_of(y), value, team_);
}

void CpuOps::add(Tensor y, Tensor x) {
  check::add(y, x);
  leaf_.add(view_of(y), view_of(x), team_);
}

void CpuOps::cast(Tensor y, Tensor x) {
  check::cast(y, x);
  leaf_.cast(view_of(y), view_of(x), team_);
}

void CpuOps::dropout(Tensor y, Tensor x, float p, Random random) {
  check::dropout(y, x, p);
  leaf_.dropout(view_of(y), view_of(x), p, random.key, team_);
}

void CpuOps::gated(Activation f, Tensor y, Tensor gate, Tensor up) {
  check::gated(y, gate, up);
  leaf_.gated(f, view_of(y), view_of(gate), view_of(up), team_);
}

void CpuOps::gated_grad(Activation f, Tensor dgate, Tensor dup, Tensor dy, Tensor gate, Tensor up) {
  check::gated_grad(dgate, dup, dy, gate, up);
  leaf_.gated_grad(f, view_of(dgate), view_of(dup), view_of(dy), view_of(gate), view_of(up), team_);
}

void CpuOps::products(Tensor y, std::span<const Term> terms, float alpha, Tensor c) {
  check::products(y, terms, c);
  products_.run(y, terms, alpha, c);
}

void CpuOps::column_sums(Tensor y, Tensor x) {
  check::column_sums(y, x);
  leaf_.column_sums(floats(y), view_of(x), team_);
}

void CpuOps::rms_norm(Tensor y, Tensor rstd, Tensor x, Tensor w, float eps) {
  check::rms_norm(y, rstd, x, w);
  leaf_.rms_norm(view_of(y), floats(rstd), view_of(x), w.data, eps, team_);
}

void CpuOps::rms_norm_grad(Tensor dx, Tensor dw, Tensor dy, Tensor x, Tensor w, Tensor rstd) {
  check::rms_norm_grad(dx, dw, dy, x, w, rstd);
  leaf_.rms_norm_grad(view_of(dx), floats(dw), view_of(dy), view_of(x), w.data, floats(rstd), team_);
}

void CpuOps::rope(Tensor x, Tensor cos, Tensor sin, Tensor positions, std::int64_t head_width, float sign) {
  check::rope(x, cos, sin, positions, head_width);
  const std::int32_t* at = indices(positions, cos.rows(), "rope: a position beyond the table");
  leaf_.rope({view_of(x), floats(cos), floats(sin), at, head_width, sign}, team_);
}

void CpuOps::attention(Tensor y, Tensor lse, Tensor q, Tensor k, Tensor v, Heads heads, const Mask& mask,
                       const Scores& scores) {
  check::attention(y, lse, q, k, v, heads, mask, scores);
  attention_.forward(y, lse, q, k, v, heads, mask, scores);
}

void CpuOps::attention_grad(Tensor dq, Tensor dk, Tensor dv, Tensor dbias, Tensor dy, Tensor y, Tensor lse,
                            Tensor q, Tensor k, Tensor v, Heads heads, const Mask& mask,
                            const Scores& scores) {
  check::attention_grad(dq, dk, dv, dbias, dy, y, lse, q, k, v, heads, mask, scores);
  attention_.backward(dq, dk, dv, dbias, dy, y, lse, q, k, v, heads, mask, scores);
}

void CpuOps::attention_ranges(Tensor y, Tensor q, Tensor k, Tensor v, Heads heads, const KeyRanges& ranges,
                              const Scores& scores) {
  check::attention_ranges(y, q, k, v, heads, ranges, scores);
  attention_.ranges(y, q, k, v, heads, ranges, scores);
}

void CpuOps::embedding(Tensor y, Tensor ids, Tensor table) {
  check::embedding(y, ids, table);
  const std::int32_t* id = indices(ids, table.rows(), "embedding: an id beyond the table");
  copy_rows(
      y, table, y.rows(), team_, [](auto i) { return i; }, [=](auto i) { return id[i]; });
}

void CpuOps::embedding_grad(Tensor dtable, Tensor ids, Tensor dy) {
  check::embedding_grad(dtable, ids, dy);
  const std::int32_t* id = indices(ids, dtable.rows(), "embedding_grad: an id beyond the table");
  leaf_.embedding_grad(view_of(dtable), id, view_of(dy), team_);
}

void CpuOps::gather_rows(Tensor y, Tensor x, Tensor rows) {
  check::gather_rows(y, x, rows);
  const std::int32_t* row = indices(rows, x.rows(), "gather_rows: a row beyond x");
  copy_rows(
      y, x, y.rows(), team_, [](auto i) { return i; }, [=](auto i) { return row[i]; });
}

void CpuOps::scatter_rows(Tensor y, Tensor x, Tensor rows) {
  check::scatter_rows(y, x, rows);
  const std::int32_t* row = indices(rows, y.rows(), "scatter_rows: a row beyond y");
  copy_rows(
      y, x, x.rows(), team_, [=](auto i) { return row[i]; }, [](auto i) { return i; });
}

void CpuOps::cross_entropy(Tensor loss, Tensor logits, Tensor targets, const CrossEntropy& how) {
  check::cross_entropy(loss, logits, targets, how);
  const std::int32_t* target = indices(targets, logits.cols(), "cross_entropy: a target beyond the classes");
  leaf_.cross_entropy({floats(loss), view_of(logits), target, how.scale, how.smoothing, how.gradient}, team_);
}

void CpuOps::sum(Tensor y, Tensor x) {
  check::sum(y, x);
  *y.as<double>() += leaf_.sum(floats(x), x.numel(), team_);
}

void CpuOps::sum_squares(Tensor y, Tensor x) {
  check::sum(y, x);
  *y.as<double>() += leaf_.sum_squares(floats(x), x.numel(), team_);
}

void CpuOps::adamw(Tensor master, Tensor m, Tensor v, Tensor grad, const AdamW& how) {
  check::adamw(master, m, v, grad, how);
  leaf_.adamw(floats(master), floats(m), floats(v), floats(grad), master.numel(), scalars_of(how), team_);
}

void CpuOps::sgd(Tensor master, Tensor grad, float lr, float decay, float grad_scale) {
  check::sgd(master, grad);
  leaf_.sgd(floats(master), floats(grad), master.numel(), lr, decay, grad_scale, team_);
}

// The best of a few products whose operands stay in the caches.
double CpuOps::peak_flops(DType dtype) {
  constexpr std::int64_t kRows = 96, kCols = 256, kDepth = 512;
  const Buffer memory = allocate((kRows * kDepth + kCols * kDepth + kRows * kCols) * size_of(dtype));
  Tensor x(memory.get(), dtype, {kRows, kDepth});
  Tensor w(x.data + x.bytes(), dtype, {kCols, kDepth}), y(w.data + w.bytes(), dtype, {kRows, kCols});
  for (Tensor* t : {&x, &w}) fill(*t, 0);
  using Clock = std::chrono::steady_clock;
  double best = 0;
  for (const auto begin = Clock::now(); Clock::now() - begin < std::chrono::milliseconds(40);) {
    const auto start = Clock::now();
    product(*this, y, {x, Trans::no, w, Trans::yes});
    const std::chrono::duration<double> seconds = Clock::now() - start;
    best = std::max(best, 2.0 * kRows * kCols * kDepth / seconds.count());
  }
  return best;
}

}  // namespace ft::cpu
