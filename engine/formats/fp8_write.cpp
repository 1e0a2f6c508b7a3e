#include "engine/formats/fp8_write.h"

#include <nlohmann/json.hpp>

#include "engine/core/require.h"

namespace ft {

std::vector<TensorSpec> fp8_specs(const std::string& weight, const Shape& shape) {
  return {{weight, DType::u8, shape, true}, {weight + "_scale", DType::f32, {shape[0], 1}}};
}

Json fp8_config(const std::vector<std::string>& dense) {
  const auto numbers = [](const char* strategy, bool dynamic) {
    return Json{{"actorder", nullptr},
                {"block_structure", nullptr},
                {"dynamic", dynamic},
                {"group_size", nullptr},
                {"num_bits", 8},
                {"observer", dynamic ? Json() : "minmax"},
                {"observer_kwargs", Json::object()},
                {"strategy", strategy},
                {"symmetric", true},
                {"type", "float"}};
  };
  const Json group = {{"input_activations", numbers("token", true)},
                      {"output_activations", nullptr},
                      {"targets", {"Linear"}},
                      {"weights", numbers("channel", false)}};
  return {{"config_groups", {{"group_0", group}}},
          {"format", "float-quantized"},
          {"global_compression_ratio", nullptr},
          {"ignore", dense},
          {"kv_cache_scheme", nullptr},
          {"quant_method", "compressed-tensors"},
          {"quantization_status", "compressed"}};
}

void write_fp8(SafetensorsFiller& files, const std::string& weight, Fp8Data& q) {
  require(q.scheme == kFp8Channels, "FP8 is written with a scale for each row");
  files.write(weight, 0, {reinterpret_cast<std::byte*>(q.codes.data()), DType::u8, {std::ssize(q.codes)}});
  files.write(weight + "_scale", 0,
              {reinterpret_cast<std::byte*>(q.scales.data()), DType::f32, {std::ssize(q.scales)}});
}

}  // namespace ft
