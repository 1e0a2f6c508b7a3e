#include "engine/files/safetensors/grown_weights.h"

#include <algorithm>
#include <functional>

#include "engine/core/error.h"
#include "engine/files/convert.h"

namespace ft {
namespace {

Tensor view(float* values, std::int64_t n) { return {reinterpret_cast<std::byte*>(values), DType::f32, {n}}; }

}  // namespace

GrownWeights::GrownWeights(std::unique_ptr<WeightSource> base, const std::vector<std::string>& grown,
                           std::int64_t rows)
    : base_(std::move(base)), rows_(rows) {
  for (const std::string& name : grown) {
    if (!base_->has(name)) continue;
    const WeightInfo info = base_->info(name);
    if (info.shape.empty() || info.shape[0] >= rows) continue;
    const auto type = dtype_of(info.type);
    if (!type || !is_weight_type(*type))
      throw UserError(Exit::input, str(info.file, ": ", printable(name), " is ", name_of(info.type),
                                       " and cannot get rows for new tokens"));
    Grown& g = grown_[name];
    g.columns = info.shape.size() > 1 ? info.shape[1] : 1;
    g.stored = info.shape[0] * g.columns;
  }
}

WeightInfo GrownWeights::info(const std::string& name) const {
  WeightInfo info = base_->info(name);
  if (grown_.contains(name)) info.shape[0] = rows_;
  return info;
}

StoredBytes GrownWeights::find_stored(const std::string& name, DType type, std::int64_t elements) const {
  return grown_.contains(name) ? StoredBytes{} : base_->find_stored(name, type, elements);
}

const std::vector<float>& GrownWeights::mean_of(const std::string& name, Grown& g) const {
  std::call_once(g.once, [&] {
    const std::int64_t rows = g.stored / g.columns,
                       at_once = std::max<std::int64_t>(1, (1 << 20) / g.columns);
    std::vector<double> sums(static_cast<std::size_t>(g.columns));
    std::vector<float> values(static_cast<std::size_t>(std::min(rows, at_once) * g.columns));
    for (std::int64_t row = 0; row < rows; row += at_once) {
      const std::int64_t n = std::min(at_once, rows - row);
      base_->read(name, view(values.data(), n * g.columns), row * g.columns);
      for (auto v = values.begin(); v != values.begin() + n * g.columns; v += g.columns)
        std::transform(sums.begin(), sums.end(), v, sums.begin(), std::plus<>());
    }
    const DType stored = dtype_of(base_->info(name).type).value();
    g.mean.resize(sums.size());
    for (std::size_t i = 0; i < sums.size(); ++i)
      g.mean[i] = static_cast<float>(sums[i] / static_cast<double>(rows));
    std::vector<float> rounded(g.mean.size());  // large enough for any type
    convert(rounded.data(), stored, g.mean.data(), DType::f32, std::ssize(g.mean));
    convert(g.mean.data(), DType::f32, rounded.data(), stored, std::ssize(g.mean));
  });
  return g.mean;
}

void GrownWeights::read(const std::string& name, const Tensor& to, std::int64_t first) const {
  const auto it = grown_.find(name);
  if (it == grown_.end()) return base_->read(name, to, first);
  Grown& g = it->second;
  const std::int64_t last = first + to.numel(),
                     from_files = std::clamp<std::int64_t>(g.stored - first, 0, to.numel());
  if (from_files > 0) base_->read(name, to.elements(0, from_files), first);
  if (last <= g.stored) return;
  const std::vector<float>& mean = mean_of(name, g);
  std::vector<float> values(static_cast<std::size_t>(to.numel() - from_files));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = mean[static_cast<std::size_t>((std::max(first, g.stored) + static_cast<std::int64_t>(i)) %
                                              g.columns)];
  const Tensor rest = to.elements(from_files, std::ssize(values));
  convert(rest.data, rest.dtype, values.data(), DType::f32, rest.numel());
}

}  // namespace ft
