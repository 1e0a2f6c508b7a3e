#include "models/t5/relative_bias.h"

#include <algorithm>
#include <cmath>

#include "engine/ops/ops.h"

namespace ft::t5 {

// Computes in f32, as transformers does.
std::vector<std::int32_t> buckets_of(std::int64_t reach, bool bidirectional, std::int64_t buckets,
                                     std::int64_t max_distance) {
  const std::int64_t of_a_side = bidirectional ? buckets / 2 : buckets, exact = of_a_side / 2;
  const auto factor =
      static_cast<float>(std::log(static_cast<double>(max_distance) / static_cast<double>(exact)));
  std::vector<std::int32_t> all;
  for (std::int64_t distance = -reach; distance <= reach; ++distance) {
    const std::int64_t n = bidirectional ? std::abs(distance) : std::max<std::int64_t>(0, -distance);
    std::int64_t bucket = n;
    if (n >= exact) {
      const float grown = std::log(static_cast<float>(n) / static_cast<float>(exact)) / factor;
      bucket = exact + static_cast<std::int64_t>(grown * static_cast<float>(of_a_side - exact));
    }
    bucket = std::min(bucket, of_a_side - 1) + (bidirectional && distance > 0 ? of_a_side : 0);
    all.push_back(static_cast<std::int32_t>(bucket));
  }
  return all;
}

std::vector<std::int32_t> trimmed(std::vector<std::int32_t> buckets) {
  auto first = buckets.begin(), last = buckets.end() - 1;
  for (; last - first > 1 && first[0] == first[1] && last[0] == last[-1]; --last) ++first;
  return {first, last + 1};
}

RelativeBias::Pass RelativeBias::take(Ctx& c, std::int64_t longest) const {
  // The reach is max_distance + 1, because all greater distances certainly share a bucket.
  const std::int64_t reach = std::clamp<std::int64_t>(longest - 1, 0, max_distance + 1);
  const std::vector<std::int32_t> ids =
      trimmed(buckets_of(reach, bidirectional, weight.shape[0], max_distance));
  const std::int64_t rows = static_cast<std::int64_t>(ids.size()), heads = weight.shape[1];
  Pass p{c.saved.take({rows}, DType::i32), c.saved.take({rows, heads}, c.dtype), {}};
  c.ops.enter(weight.name);
  c.ops.upload(p.buckets, ids.data());
  return p;
}

void RelativeBias::forward(Ctx& c, ParameterStore& store, const Pass& p) const {
  c.ops.enter(weight.name);
  const Use use(store, unit, false);
  c.ops.run(op::Embedding{.y = p.bias, .ids = p.buckets, .table = weight.value});
}

void RelativeBias::begin_backward(Ctx& c, Pass& p) const {
  if (!weight.trainable) return;
  c.ops.enter(weight.name);
  p.dbias = c.scratch.take(p.bias.shape, DType::f32);
  c.ops.run(op::Fill{p.dbias, 0});
}

void RelativeBias::backward(Ctx& c, ParameterStore& store, const Pass& p) const {
  if (!p.dbias) return;
  c.ops.enter(weight.name);
  const Use use(store, unit, true);
  c.ops.run(op::EmbeddingGrad{.dtable = weight.grad, .ids = p.buckets, .dy = p.dbias});
  store.reduce(unit, true);
}

}  // namespace ft::t5
