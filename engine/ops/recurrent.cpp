#include "engine/ops/recurrent.h"

#include <algorithm>

#include "engine/ops/checks.h"
#include "engine/ops/delta_room.h"

namespace ft {
namespace op {
namespace {

void check_memory(const Tensor& memory, DType type, std::int64_t columns, const Tensor& slot,
                  const Tensor& past, std::int64_t rows) {
  if (!memory) return require(!slot && !past, "a recurrent operation: slots without a memory");
  require(memory.dtype == type && memory.cols() == columns,
          "a recurrent operation: a memory of another size");
  require(is_vector(slot, rows, DType::i32) && is_vector(past, rows, DType::i32),
          "a recurrent operation: slot or past is not one i32 for every row");
}

void check_first(const Tensor& first, std::int64_t rows) {
  require(is_vector(first, rows, DType::i32), "a recurrent operation: first is not one i32 for every row");
}

// Checks that every row's first row begins a sequence that reaches to the row.
void check_first_rows(const Tensor& first) {
  const auto* f = first.as<std::int32_t>();
  for (std::int64_t r = 0; r < first.numel(); ++r)
    require(f[r] == r || (r > 0 && f[r] == f[r - 1]), "first: not the first rows of sequences");
}

void check_slots(const Tensor& memory, const Tensor& slot, const Tensor& past) {
  if (!memory) return;
  require(all_below(slot, memory.rows()), "a slot that is not there");
  const auto* p = past.as<std::int32_t>();
  for (std::int64_t r = 0; r < past.numel(); ++r) require(p[r] >= 0, "a negative number of past tokens");
}

void check_taps(const Tensor& x, const Tensor& w, const Tensor& first) {
  require(is_float(x) && w.dtype == x.dtype && w.rows() == x.cols() && w.dense(),
          "causal_conv: w is not (columns of x, taps) of x's type");
  require(w.cols() >= 1 && w.cols() <= kMostTaps, "causal_conv: too many taps");
  check_first(first, x.rows());
}

void check_gates(const Tensor& a, const Tensor& b, const Tensor& a_log, const Tensor& dt_bias) {
  require(is_float(a) && alike(a, b), "delta_gates: a and b differ");
  require(is_vector(a_log, a.cols(), DType::f32) && is_vector(dt_bias, a.cols(), DType::f32),
          "delta_gates: a_log or dt_bias is not one f32 for every head");
}
bool is_gate(const Tensor& t, std::int64_t rows, std::int64_t heads) {
  return t.dtype == DType::f32 && t.rows() == rows && t.cols() == heads;
}

bool fits_cpu(const Tensor& work, const DeltaHeads& h, bool gradient) {
  return work.rows() % h.keys == 0 && work.rows() > 0 && work.cols() >= delta_work(h, gradient);
}

// d: DeltaRule or DeltaRuleGrad.
template <class D>
void check_delta(const D& d, bool gradient) {
  const DeltaHeads& h = d.heads;
  require(h.keys > 0 && h.values > 0 && h.values % h.keys == 0 && h.key_width > 0 && h.value_width > 0,
          "delta_rule: heads that do not fit");
  require(is_float(d.q) && alike(d.k, d.q) && d.q.cols() == h.key_columns(),
          "delta_rule: q or k is not (rows, K k)");
  require(d.v.dtype == d.q.dtype && d.v.rows() == d.q.rows() && d.v.cols() == h.value_columns(),
          "delta_rule: v is not (rows, V v)");
  require(is_gate(d.g, d.q.rows(), h.values) && is_gate(d.beta, d.q.rows(), h.values),
          "delta_rule: g or beta is not (rows, V) f32");
  require(d.work.dtype == DType::f32 && d.work.dense() &&
              (fits_cpu(d.work, h, gradient) || d.work.numel() >= delta_gpu_work(h, d.q.rows(), gradient)),
          "delta_rule: too little memory to work in");
  check_first(d.first, d.q.rows());
}

// Checks what check() leaves open, because it does not know the device.
void check_cpu_work(const auto& d, bool gradient) {
  require(fits_cpu(d.work, d.heads, gradient), "delta_rule: too little memory for a CPU to work in");
}

// Products of a chunk of L rows, as in delta_chunk.h.
double chunk_flops(const DeltaHeads& h, std::int64_t rows, bool gradient) {
  const double L = kDeltaChunk, k = double(h.key_width), v = double(h.value_width);
  const double keys = 2 * L * L * k * 2, forward = 2 * L * (3 * k * v + 1.5 * L * v),
               backward = 2 * L * (8 * k * v + 3.5 * L * v + 4 * L * k) + forward;
  const double chunks = double(rows) / L;
  return chunks * (double(h.keys) * keys + double(h.values) * (gradient ? backward : forward));
}

}  // namespace

void CausalConv::check() const {
  check_taps(x, w, first);
  require(alike(y, x), "causal_conv: y and x differ");
  check_memory(memory, x.dtype, (w.cols() - 1) * x.cols(), slot, past, x.rows());
}
void CausalConv::check_indices() const {
  check_first_rows(first);
  check_slots(memory, slot, past);
}

void CausalConvGrad::check() const {
  check_taps(x, w, first);
  require(alike(dy, x) && (!dx || alike(dx, x)), "causal_conv_grad: dx or dy differs from x");
  require(!dw || (dw.dtype == DType::f32 && same_size(dw, w) && dw.dense()),
          "causal_conv_grad: dw is not w's size in f32");
}
void CausalConvGrad::check_indices() const { check_first_rows(first); }

void DeltaGates::check() const {
  check_gates(a, b, a_log, dt_bias);
  require(is_gate(g, a.rows(), a.cols()) && is_gate(beta, a.rows(), a.cols()),
          "delta_gates: g or beta is not (rows, V) f32");
}
void DeltaGatesGrad::check() const {
  check_gates(a, b, a_log, dt_bias);
  require(alike(da, a) && alike(db, a), "delta_gates_grad: da or db differs from a");
  require(is_gate(dg, a.rows(), a.cols()) && is_gate(dbeta, a.rows(), a.cols()),
          "delta_gates_grad: dg or dbeta is not (rows, V) f32");
  require(
      is_vector_if_there(da_log, a.cols(), DType::f32) && is_vector_if_there(ddt_bias, a.cols(), DType::f32),
      "delta_gates_grad: da_log or ddt_bias is not one f32 for every head");
}

void DeltaRule::check() const {
  check_delta(*this, false);
  require(alike(o, v), "delta_rule: o and v differ");
  check_memory(memory, DType::f32, heads.state(), slot, past, q.rows());
}
void DeltaRule::check_indices() const {
  check_cpu_work(*this, false);
  check_first_rows(first);
  check_slots(memory, slot, past);
}
double DeltaRule::flops() const { return chunk_flops(heads, q.rows(), false); }
double DeltaRule::bytes() const {
  return bytes_of(o) + bytes_of(q) + bytes_of(k) + bytes_of(v) + bytes_of(g) + bytes_of(beta);
}

void DeltaRuleGrad::check() const {
  check_delta(*this, true);
  require(alike(o_grad, v) && alike(dv, v) && alike(dq, q) && alike(dk, k),
          "delta_rule_grad: a gradient differs from its tensor");
  require(is_gate(dg, q.rows(), heads.values) && is_gate(dbeta, q.rows(), heads.values),
          "delta_rule_grad: dg or dbeta is not (rows, V) f32");
  require(
      states.dtype == DType::f32 && states.cols() == heads.state() && states.rows() >= q.rows() / kDeltaChunk,
      "delta_rule_grad: too little memory for states");
}
void DeltaRuleGrad::check_indices() const {
  check_cpu_work(*this, true);
  check_first_rows(first);
}
double DeltaRuleGrad::flops() const { return chunk_flops(heads, q.rows(), true); }
double DeltaRuleGrad::bytes() const {
  return 2 * (bytes_of(q) + bytes_of(k) + bytes_of(v)) + bytes_of(o_grad) + 2 * bytes_of(states);
}

}  // namespace op

std::int64_t delta_work(const DeltaHeads& h, bool gradient) {
  return delta_room(h, reinterpret_cast<float*>(std::uintptr_t{1} << 20), gradient).elements;  // only counts
}

std::int64_t delta_gpu_work(const DeltaHeads& h, std::int64_t rows, bool gradient) {
  return delta_gpu_room(h, rows, reinterpret_cast<float*>(std::uintptr_t{1} << 20), gradient).elements;
}

std::int64_t delta_work_rows(const DeltaHeads& h, std::int64_t rows) {
  constexpr std::int64_t kRowsOfAPart = 2048, kMostParts = 4;
  return h.keys * std::clamp<std::int64_t>(rows / kRowsOfAPart, 1, kMostParts);
}

Shape delta_work_shape(const Device& device, const DeltaHeads& h, std::int64_t rows, bool gradient) {
  if (device.kind == Device::Kind::cuda) return {delta_gpu_work(h, rows, gradient)};
  return {delta_work_rows(h, rows), delta_work(h, gradient)};
}

}  // namespace ft
