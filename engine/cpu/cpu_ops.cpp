#include "engine/cpu/cpu_ops.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>

#include "engine/cpu/memory.h"

namespace ft::cpu {
namespace {

// y[to(i)] = x[from(i)] for n rows, as bytes; zeros if from(i) is negative.
template <class To, class From>
void copy_rows(const Tensor& y, const Tensor& x, std::int64_t n, Team& team, To to, From from) {
  const std::int64_t row = x.cols() * size_of(x.dtype);
  const std::int64_t y_step = y.stride * size_of(y.dtype), x_step = x.stride * size_of(x.dtype);
  share_out(team, n, n * row < 65536, [&](std::int64_t i, int) {
    std::byte* const row_of_y = y.data + to(i) * y_step;
    if (from(i) < 0)
      std::memset(row_of_y, 0, std::size_t(row));
    else
      std::memcpy(row_of_y, x.data + from(i) * x_step, std::size_t(row));
  });
}

constexpr auto same = [](std::int64_t i) { return i; };

}  // namespace

CpuOps::CpuOps(int threads, Target target) : CpuOps(threads, kernels_of(target)) {}
CpuOps::CpuOps(Sums sums) : CpuOps(usable_cores(), kernels_of(best_target()), sums) {}
CpuOps::CpuOps(int threads, const Kernels& kernels, Sums sums)
    : team_(threads),
      leaf_(kernels.leaf),
      products_(kernels.products, team_, onednn_types(), sums),
      fp8_rows_(products_, team_),
      attention_(kernels, team_) {}
CpuOps::~CpuOps() = default;

Buffer CpuOps::allocate(std::int64_t bytes) { return reserve(bytes); }

std::int64_t CpuOps::free_memory() const {
  const std::int64_t bytes = available_memory();
  return bytes == std::numeric_limits<std::int64_t>::max() ? 0 : bytes;
}

void CpuOps::copy(Tensor y, Tensor x) {
  check_copy(y, x);
  if (y.dense() && x.dense()) {  // as rows of 65536 bytes
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
  check_transfer(y);
  if (y.bytes() > 0) std::memcpy(y.data, host, std::size_t(y.bytes()));
}

void CpuOps::download(void* host, Tensor x) {
  check_transfer(x);
  if (x.bytes() > 0) std::memcpy(host, x.data, std::size_t(x.bytes()));
}

// Checks indices first: they come from data, and a wrong one must not become a wild access.
template <class Op>
void CpuOps::compute(const Op& op) {
  if constexpr (requires { op.check_indices(); }) op.check_indices();
  if constexpr (InList<Op, LeafOps>::value)
    static_cast<const OpFunction<Op, Team>&>(leaf_).compute(op, team_);
  else
    own(op);
}

void CpuOps::own(const op::Embedding& op) {
  const auto* id = op.ids.as<std::int32_t>();
  copy_rows(op.y, op.table, op.y.rows(), team_, same, [=](auto i) { return id[i]; });
}

void CpuOps::own(const op::GatherRows& op) {
  const auto* row = op.rows.as<std::int32_t>();
  copy_rows(op.y, op.x, op.y.rows(), team_, same, [=](auto i) { return row[i]; });
}

void CpuOps::own(const op::ScatterRows& op) {
  const auto* row = op.rows.as<std::int32_t>();
  copy_rows(
      op.y, op.x, op.x.rows(), team_, [=](auto i) { return row[i]; }, same);
}

// The best of a few products whose operands stay in the caches.
double CpuOps::peak_flops(DType dtype) {
  constexpr std::int64_t kRows = 96, kCols = 256, kDepth = 512;
  const Buffer memory = allocate((kRows * kDepth + kCols * kDepth + kRows * kCols) * size_of(dtype));
  Tensor x(memory.get(), dtype, {kRows, kDepth});
  Tensor w(x.data + x.bytes(), dtype, {kCols, kDepth}), y(w.data + w.bytes(), dtype, {kRows, kCols});
  for (Tensor* t : {&x, &w}) run(op::Fill{*t, 0});
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
