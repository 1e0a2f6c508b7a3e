#include "lora/fp8.h"

#include <algorithm>
#include <cstring>

#include "engine/files/convert.h"
#include "engine/files/json.h"
#include "lora/matching.h"

namespace ft::lora {
namespace {

// Returns the folder in FP8 below the base; null: there is none.
const Fp8Folder* fp8_folder_of(const WeightSource* base) {
  for (; base; base = base->changed())
    if (const auto* folder = dynamic_cast<const Fp8Folder*>(base)) return folder;
  return nullptr;
}

// A file of a model that has other parts names the text model's modules inside it.
std::vector<std::string> in_text_model(std::vector<std::string> names) {
  constexpr std::string_view kNested = "model.language_model.";
  for (std::string& name : names)
    if (name.starts_with(kNested)) name = "model." + name.substr(kNested.size());
  return names;
}

// Reads transformers' and DeepSeek's form.
Fp8Plan fine_grained_plan(const JsonObject& j) {
  Fp8Plan plan{.scheme = kFp8Tensor, .skip = {"lm_head"}, .stored = true};
  if (j.text_or("fmt", "e4m3") != "e4m3") j.refuse("fmt", "e4m3");
  if (j.has("weight_block_size")) {
    if (j.integers("weight_block_size") != std::vector<std::int64_t>{kFp8Blocks.rows, kFp8Blocks.cols})
      j.refuse("weight_block_size", "[128, 128] or null");
    plan.scheme = kFp8Blocks;
  }
  if (j.has("modules_to_not_convert"))
    for (std::string& name : in_text_model(j.texts("modules_to_not_convert")))
      plan.skip.push_back(std::move(name));
  return plan;
}

// Reads compressed-tensors' form: all groups have the same kind of weights.
Fp8Plan compressed_plan(const JsonObject& j) {
  Fp8Plan plan{.scheme = kFp8Channels, .skip = {}, .stored = true};
  const std::string format = j.text_or("format", "float-quantized");
  if (format != "float-quantized" && format != "naive-quantized")
    j.refuse("format", "float-quantized: of compressed-tensors, ft reads FP8");
  if (j.has("ignore")) plan.skip = in_text_model(j.texts("ignore"));
  const JsonObject groups = j.object("config_groups");
  for (const std::string& name : groups.keys()) {
    const JsonObject weights = groups.object(name).object("weights");
    if (weights.text_or("type", "int") != "float") weights.refuse("type", "float");
    if (weights.integer("num_bits", 1) != 8) weights.refuse("num_bits", "8");
    const std::string strategy = weights.text_or("strategy", "tensor");
    if (strategy != "tensor" && strategy != "channel" && strategy != "block")
      weights.refuse("strategy", "tensor, channel or block");
    plan.scheme = strategy == "tensor" ? kFp8Tensor : strategy == "channel" ? kFp8Channels : kFp8Blocks;
  }
  return plan;
}

template <class T>
void copy_fp8(const Tensor& y, const std::vector<T>& from, std::int64_t first) {
  require(first + y.numel() <= std::ssize(from), "a weight in FP8 of another size");
  std::memcpy(y.as<T>(), from.data() + first, static_cast<std::size_t>(y.bytes()));
}

}  // namespace

std::optional<Fp8Plan> stored_fp8_plan(const std::string& config_json) {
  const JsonObject model = JsonObject::read(config_json);
  if (!model.has("quantization_config")) return std::nullopt;
  const JsonObject j = model.object("quantization_config");
  const std::string method = j.text_or("quant_method", "bitsandbytes");
  if (method == "fp8") return fine_grained_plan(j);
  if (method == "compressed-tensors") return compressed_plan(j);
  return std::nullopt;
}

Fp8Data quantized_fp8(const WeightSource& base, const std::string& weight, const Shape& shape, bool turned) {
  const std::int64_t out = shape[0], in = shape[1];
  const DType type = *dtype_of(base.info(weight).type);
  if (!turned)
    return quantize_fp8(out, in, type, kFp8Channels,
                        [&](const Tensor& to, std::int64_t first) { base.read(weight, to, first); });
  std::vector<float> values(static_cast<std::size_t>(in * out));
  base.read(weight, {reinterpret_cast<std::byte*>(values.data()), DType::f32, {in, out}});
  return quantize_fp8(out, in, DType::f32, kFp8Channels, [&](const Tensor& to, std::int64_t first) {
    for (std::int64_t i = 0; i < to.numel(); ++i) {
      const std::int64_t row = (first + i) / in, column = (first + i) % in;
      to.as<float>()[i] = values[static_cast<std::size_t>(column * out + row)];
    }
  });
}

Fp8Weights::Fp8Weights(Model& model, const Fp8Plan& plan, const WeightSource* base) {
  if (plan.stored && base && !fp8_folder_of(base))
    throw UserError(Exit::input,
                    "config.json: quantization_config says FP8, but the files have no weights in F8_E4M3; "
                    "leave quantization_config out");
  EachLinear each([&](Linear& l) { quantize(l, plan, base); });
  model.visit(each);
  if (weights_.empty())
    throw UserError(plan.stored ? Exit::input : Exit::config,
                    plan.stored ? "config.json: quantization_config says FP8, but no linear that ft computes "
                                  "is in FP8; leave quantization_config out"
                                : "model.frozen_dtype: fp8: no frozen linear is left to keep in FP8; leave "
                                  "it out");
}

void Fp8Weights::quantize(Linear& l, const Fp8Plan& plan, const WeightSource* base) {
  auto* dense = dynamic_cast<DenseWeight*>(l.weight.get());
  if (!dense || dense->parameter.trainable) return;
  const Parameter& p = dense->parameter;
  const bool turned = dense->inputs_first();
  const Shape shape = turned ? Shape{p.shape[1], p.shape[0]} : p.shape;
  const Fp8Folder* folder = fp8_folder_of(base);
  const StoredFp8* stored = folder ? folder->find(p.stored_name()) : nullptr;
  if (turned && (plan.stored || stored))
    throw UserError(Exit::input, str(p.name,
                                     ": ft reads no files in FP8 of weights that are stored inputs first; "
                                     "start from the model in 16 or 32 bits"));
  if (stored && stored->shape != shape) return;  // a table with more rows than in the files is dense
  const bool files_decide = plan.stored && base;
  const auto skips = [&](const std::string& entry) {
    return is_listed(l.name, entry, "quantization_config.ignore", Exit::input);
  };
  if (files_decide ? !stored : std::ranges::any_of(plan.skip, skips)) return;
  if (!plan.stored && !stored && shape[0] == 1) return;
  auto weight = std::make_unique<Fp8Weight>(p.name, shape, stored ? stored->scheme : plan.scheme);
  if (turned) turned_.insert(weight.get());
  weight->codes.stored_as = p.stored_as;
  Fp8Weight* w = weights_.emplace_back(weight.get());
  by_parameter_[w->codes.name] = by_parameter_[w->scales.name] = w;
  by_stored_name_[w->codes.stored_name()] = w;
  l.weight = std::move(weight);
}

const Fp8Weight* Fp8Weights::find(const std::string& stored_name) const {
  const auto it = by_stored_name_.find(stored_name);
  return it == by_stored_name_.end() ? nullptr : it->second;
}

void Fp8Weights::find_stored(const WeightSource& base) const {
  const Fp8Folder* folder = fp8_folder_of(&base);
  for (Fp8Weight* w : weights_) {
    const StoredFp8* stored = folder ? folder->find(w->codes.stored_name()) : nullptr;
    if (!stored) continue;
    w->codes.stored = folder->find_stored(w->codes.stored_name(), DType::u8, w->codes.shape.numel());
    w->scales.stored = folder->find_stored(stored->scales, DType::f32, w->scales.shape.numel());
  }
}

void Fp8Weights::expect(const WeightSource& base) const {
  for (const Fp8Weight* w : weights_)
    base.expect(w->codes.stored_name(), turned_.contains(w) ? Shape{w->whole[1], w->whole[0]} : w->whole);
}

// Fills data_ from the folder, if it has the weight in FP8, or by quantizing.
void Fp8Weights::hold(const WeightSource& base, const Fp8Weight& w) const {
  if (held_ == &w) return;
  held_ = nullptr;
  const Fp8Folder* folder = fp8_folder_of(&base);
  const std::string& name = w.codes.stored_name();
  data_ = folder && folder->find(name) ? folder->data(name)
                                       : quantized_fp8(base, name, w.whole, turned_.contains(&w));
  held_ = &w;
}

std::vector<float> Fp8Weights::dense(const WeightSource& base, const Fp8Weight& w) const {
  hold(base, w);
  std::vector<float> values(static_cast<std::size_t>(w.whole.numel()));
  dequantize(values, data_);
  return values;
}

void Fp8Weights::read(const WeightSource& base, const Parameter& p, const Tensor& y,
                      std::int64_t first) const {
  const Fp8Weight* w = by_parameter_.at(p.name);
  hold(base, *w);
  p.name == w->codes.name ? copy_fp8(y, data_.codes, first) : copy_fp8(y, data_.scales, first);
}

}  // namespace ft::lora
