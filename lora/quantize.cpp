#include "lora/quantize.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "engine/files/convert.h"
#include "engine/files/json.h"
#include "lora/matching.h"

namespace ft::lora {
namespace {

// Copies a part of an array of the quantized weight.
template <class T>
void copy_part(const Tensor& y, const std::vector<T>& from, std::int64_t first) {
  require(first + y.numel() <= static_cast<std::int64_t>(from.size()), "a weight in 4 bits of another size");
  std::memcpy(y.as<T>(), from.data() + first, static_cast<std::size_t>(y.bytes()));
}

// Quantizes the transpose, (out, in), of a weight that is stored (in, out), as bitsandbytes does.
FourBitData quantized_transpose(const WeightSource& base, const std::string& weight, const Shape& shape,
                                FourBitForm form) {
  const std::int64_t out = shape[0], in = shape[1];
  std::vector<float> values(static_cast<std::size_t>(in * out)), turned(values.size());
  base.read(weight, {reinterpret_cast<std::byte*>(values.data()), DType::f32, {in, out}});
  for (std::int64_t i = 0; i < in; ++i)
    for (std::int64_t o = 0; o < out; ++o)
      turned[static_cast<std::size_t>(o * in + i)] = values[static_cast<std::size_t>(i * out + o)];
  return ft::quantize(in * out, *dtype_of(base.info(weight).type), form,
                      [&](const Tensor& to, std::int64_t first) {
                        convert(to.data, to.dtype, turned.data() + first, DType::f32, to.numel());
                      });
}

}  // namespace

FourBitPlan four_bit_plan(const QuantizationConfig& c) {
  return {{c.bnb_4bit_quant_type, c.blocksize, c.bnb_4bit_use_double_quant}, c.skip_modules, false};
}

std::optional<FourBitPlan> stored_four_bit_plan(const std::string& config_json) {
  const JsonObject model = JsonObject::read(config_json);
  if (!model.has("quantization_config")) return std::nullopt;
  const JsonObject j = model.object("quantization_config");
  const std::string method = j.text_or("quant_method", "bitsandbytes");
  if (method == "mxfp4") return std::nullopt;                                  // experts: Mxfp4Folder
  if (method == "fp8" || method == "compressed-tensors") return std::nullopt;  // stored_fp8_plan()
  if (method != "bitsandbytes" || !j.boolean_or("load_in_4bit", false))
    j.refuse(
        j.has("quant_method") ? "quant_method" : "load_in_4bit",
        "bitsandbytes with load_in_4bit, fp8 or compressed-tensors: ft reads no other quantized weights");
  if (j.text_or("bnb_4bit_quant_storage", "uint8") != "uint8") j.refuse("bnb_4bit_quant_storage", "uint8");
  const auto book = value_of<FourBitBook>(j.text_or("bnb_4bit_quant_type", "fp4"));  // transformers' default
  if (!book) j.refuse("bnb_4bit_quant_type", "nf4 or fp4");
  FourBitPlan plan{{*book, 64, j.boolean_or("bnb_4bit_use_double_quant", false)}, {"lm_head"}, true};
  if (j.has("llm_int8_skip_modules")) plan.skip = j.texts("llm_int8_skip_modules");
  // A file of a model that has other parts names the text model's modules inside it.
  constexpr std::string_view kNested = "model.language_model.";
  for (std::string& name : plan.skip)
    if (name.starts_with(kNested)) name = "model." + name.substr(kNested.size());
  return plan;
}

FourBitData quantized(const WeightSource& base, const std::string& weight, std::int64_t elements,
                      FourBitForm form) {
  return ft::quantize(elements, *dtype_of(base.info(weight).type), form,
                      [&](const Tensor& to, std::int64_t first) { base.read(weight, to, first); });
}

FourBitWeights::FourBitWeights(Model& model, const FourBitPlan& plan, const WeightSource* base)
    : plan_(plan) {
  std::set<std::string> unused(plan.skip.begin(), plan.skip.end());
  std::string names;
  EachLinear each([&](Linear& l) {
    bool skipped = false;
    for (const std::string& module : plan.skip)
      if (lies_in(l.name, module)) {
        skipped = true;
        unused.erase(module);
      }
    if (!skipped) quantize(l, base);
    const std::string last = l.name.substr(l.name.rfind('.') + 1);
    if (!lies_in(names, last)) names += (names.empty() ? "" : ".") + last;
  });
  model.visit(each);
  std::replace(names.begin(), names.end(), '.', ' ');
  if (!plan.stored && !unused.empty())
    throw UserError(Exit::config, str("quantization.skip_modules: nothing is called \"",
                                      printable(*unused.begin()), "\"; linears of this model: ", names));
  if (weights_.empty())
    throw UserError(
        Exit::config,
        "quantization.load_in_4bit: quantization.skip_modules leaves no linear to keep in 4 bits");
}

void FourBitWeights::quantize(Linear& l, const WeightSource* base) {
  auto* dense = dynamic_cast<DenseWeight*>(l.weight.get());
  if (!dense) return;  // a head that shares the embedding's table
  const Parameter& p = dense->parameter;
  if (p.trainable)
    throw UserError(Exit::config, str("lora.modules_to_save: ", l.name,
                                      " is kept in 4 bits, which cannot be trained; name it in "
                                      "quantization.skip_modules"));
  FourBitForm form = plan_.form;
  const auto* folder = dynamic_cast<const BitsAndBytesFolder*>(base);
  if (const StoredFourBit* s = plan_.stored && folder ? folder->find(p.stored_name()) : nullptr)
    form = s->form;
  const bool turned = dense->inputs_first();
  if (turned && folder && folder->find(p.stored_name()))
    throw UserError(Exit::input, str(p.name,
                                     ": ft reads no 4-bit files of weights that are stored inputs "
                                     "first; start from the model in 16 or 32 bits"));
  const Shape shape = turned ? Shape{p.shape[1], p.shape[0]} : p.shape;
  auto weight = std::make_unique<FourBitWeight>(p.name, shape, form);
  if (turned) turned_.insert(weight.get());
  weight->codes.stored_as = p.stored_as;
  FourBitWeight* w = weights_.emplace_back(weight.get());
  for (const Parameter* part : {&w->codes, &w->absmax, &w->nested_absmax, &w->nested_offset})
    if (!part->name.empty()) by_parameter_[part->name] = w;
  by_stored_name_[w->codes.stored_name()] = w;
  l.weight = std::move(weight);
}

const FourBitWeight* FourBitWeights::find(const std::string& stored_name) const {
  const auto it = by_stored_name_.find(stored_name);
  return it == by_stored_name_.end() ? nullptr : it->second;
}

void FourBitWeights::find_stored(const WeightSource& base) const {
  for (FourBitWeight* w : weights_)
    for (Parameter* p : {&w->codes, &w->absmax, &w->nested_absmax})
      if (!p->name.empty())  // without double quantization there are no nested statistics
        p->stored = base.find_stored(w->codes.stored_name() + p->name.substr(w->codes.name.size()), p->dtype,
                                     p->shape.numel());
}

void FourBitWeights::expect(const WeightSource& base) const {
  for (const FourBitWeight* w : weights_)
    base.expect(w->codes.stored_name(), turned_.contains(w) ? Shape{w->whole[1], w->whole[0]} : w->whole);
}

// Fills data_ from the folder, if it has 4-bit data, or by quantizing.
void FourBitWeights::hold(const WeightSource& base, const FourBitWeight& w) const {
  if (held_ == &w) return;
  held_ = &w;
  const auto* folder = dynamic_cast<const BitsAndBytesFolder*>(&base);
  const std::string& name = w.codes.stored_name();
  if (folder && folder->find(name)) {
    data_ = folder->data(name);
  } else if (turned_.contains(&w)) {
    data_ = quantized_transpose(base, name, w.whole, w.whole_form);
  } else {
    data_ = quantized(base, name, w.whole.numel(), w.whole_form);
  }
}

std::vector<float> FourBitWeights::dense(const WeightSource& base, const FourBitWeight& w) const {
  hold(base, w);
  std::vector<float> values(static_cast<std::size_t>(w.whole.numel()));
  dequantize(values, data_);
  return values;
}

void FourBitWeights::read(const WeightSource& base, const Parameter& p, const Tensor& y,
                          std::int64_t first) const {
  const FourBitWeight* w = by_parameter_.at(p.name);
  hold(base, *w);
  if (p.name == w->codes.name) return copy_part(y, data_.codes, first);
  if (p.name == w->nested_absmax.name) return copy_part(y, data_.nested_absmax, first);
  if (p.name == w->nested_offset.name) {
    *y.as<float>() = data_.nested_offset;
    return;
  }
  if (w->form.nested) return copy_part(y, data_.absmax_codes, first);
  if (data_.form.nested) {
    for (std::int64_t i = 0; i < y.numel(); ++i) y.as<float>()[i] = absmax_of(data_, first + i);
    return;
  }
  copy_part(y, data_.absmax, first);
}

}  // namespace ft::lora
