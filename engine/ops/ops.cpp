#include "engine/ops/ops.h"

#include "engine/ops/checks.h"

namespace ft {

void Ops::check_copy(const Tensor& y, const Tensor& x) { require(op::alike(y, x), "copy: y and x differ"); }

void Ops::check_transfer(const Tensor& device) {
  require(device.dense(), "upload, download: the tensor is not dense");
}

std::unique_ptr<Stamps> Ops::stamps(std::int64_t most) { return std::make_unique<HostStamps>(most); }

std::int64_t row_padding(Device d) {
  constexpr std::int64_t kGpuPadding = 128;  // a line of its L2; product kernels copy full lines
  return d.kind == Device::Kind::cpu ? Arena::kPadding : kGpuPadding;
}

Arena make_arena(Ops& ops, std::int64_t bytes) {
  return {ops.allocate(bytes), bytes, row_padding(ops.device())};
}

}  // namespace ft
