#include "engine/train/objectives/host_loss.h"

#include "engine/ops/ops.h"

namespace ft {

std::vector<float> download(Ctx& c, Tensor t) {
  std::vector<float> host;
  if (!t || t.numel() == 0) return host;
  if (c.ops.computes()) host.resize(static_cast<std::size_t>(t.numel()));
  c.ops.download(host.data(), t);
  return host;
}

void add_to_loss(Ctx& c, Tensor sum, double value) {
  Scope scratch(c.scratch);
  const auto rounded = static_cast<float>(value);
  Tensor one = c.scratch.take({1}, DType::f32);
  c.ops.upload(one, &rounded);
  c.ops.run(op::Sum{sum, one});
}

void HostLoss::weigh(Ctx& c, const RowValues& v, Tensor weights) {
  const std::vector<float> values = download(c, v.values);
  std::vector<double> slopes(weights ? values.size() : 0);
  add_to_loss(c, loss_, compute_(c, values, slopes));
  std::vector<float> scaled;
  scaled.reserve(slopes.size());
  for (const double slope : slopes) scaled.push_back(static_cast<float>(slope) * scale_);
  if (weights && weights.numel() > 0) c.ops.upload(weights, scaled.data());
}

}  // namespace ft
