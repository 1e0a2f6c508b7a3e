#include "models/tables.h"

#include "engine/files/convert.h"
#include "engine/files/file.h"
#include "engine/files/safetensors/same_values.h"
#include "engine/formats/bitsandbytes.h"

namespace ft {

std::unique_ptr<WeightSource> weights_beside(const std::string& config_json, const StoredNames& names) {
  const std::string folder = folder_of(config_json), file = join_path(folder, "model.safetensors");
  const bool there = path_exists(file) || path_exists(file + ".index.json");
  return there ? open_model_folder(folder, names) : nullptr;
}

bool differ(const WeightSource& weights, const std::string& a, const std::string& b) {
  if (!weights.has(a) || !weights.has(b)) return false;
  const WeightInfo first = weights.info(a), second = weights.info(b);
  const auto is_float = [](StoredType t) { return dtype_of(t) && is_weight_type(*dtype_of(t)); };
  if (first.shape != second.shape || !is_float(first.type) || !is_float(second.type)) return true;
  std::int64_t elements = 1;
  for (const std::int64_t n : first.shape) elements *= n;
  return !same_values(
      elements, [&](const Tensor& to, std::int64_t at) { weights.read(a, to, at); },
      [&](const Tensor& to, std::int64_t at) { weights.read(b, to, at); });
}

}  // namespace ft
