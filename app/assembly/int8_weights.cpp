#include "app/assembly/int8_weights.h"

#include <algorithm>
#include <cstring>

#include "engine/files/convert.h"
#include "engine/layers/visitor.h"
#include "lora/matching.h"

namespace ft {
namespace {

bool is_among(const std::string& name, const std::vector<std::string>& parts) {
  return std::ranges::any_of(parts, [&](const std::string& part) { return lora::lies_in(name, part); });
}

}  // namespace

bool Int8Weights::quantize(Linear& l, const char* option) {
  auto* dense = dynamic_cast<DenseWeight*>(l.weight.get());
  if (!dense || dense->parameter.trainable) return false;
  if (l.adapter && (l.adapter->rescaling() || l.adapter->change()))
    throw UserError(Exit::config,
                    str(option,
                        " int8: not with DoRA, HiRA and SHiRA adapters, which change whole weights; merge "
                        "the adapter first (ft merge), or leave the option out"));
  auto weight = std::make_unique<Int8Weight>(dense->parameter, dense->inputs_first());
  by_parameter_[weight->codes.name] = by_parameter_[weight->scales.name] = weight.get();
  l.weight = std::move(weight);
  return true;
}

Int8Weights::Int8Weights(Model& model, const std::vector<std::string>& never_quantized) {
  EachLinear each([&](Linear& l) {
    if (!is_among(l.name, never_quantized)) quantize(l, "--quantize");
  });
  model.visit(each);
  if (by_parameter_.empty())
    throw UserError(Exit::config, "--quantize int8: this model has no linears to keep in 8 bits");
}

Int8Weights Int8Weights::of_head(Model& model, const std::string& head,
                                 const std::vector<std::string>& never_quantized) {
  Int8Weights made;
  bool found = false;
  EachLinear each([&](Linear& l) {
    if (l.name == head && !is_among(head, never_quantized)) found = made.quantize(l, "--quantize-head");
  });
  model.visit(each);
  if (!found)
    throw UserError(
        Exit::config,
        "--quantize-head int8: the head of this model cannot be kept in 8 bits: it shares the "
        "embedding's table, is quantized already, or is the adapter's; leave --quantize-head out");
  return made;
}

void Int8Weights::expect(const WeightSource& base) const {
  for (const auto& [name, w] : by_parameter_)
    if (name == w->codes.name) base.expect(w->codes.stored_name(), w->shape);
}

void Int8Weights::read(const WeightSource& base, const Parameter& p, const Tensor& y,
                       std::int64_t first) const {
  const Int8Weight* w = by_parameter_.at(p.name);
  if (held_ != w) {
    const std::string& name = w->codes.stored_name();
    data_ = quantize_int8(w->shape.numel(), *dtype_of(base.info(name).type),
                          [&](const Tensor& to, std::int64_t from) { base.read(name, to, from); });
    held_ = w;
  }
  const void* from = p.name == w->codes.name ? static_cast<const void*>(data_.codes.data() + first)
                                             : static_cast<const void*>(data_.scales.data() + first);
  std::memcpy(y.data, from, static_cast<std::size_t>(y.bytes()));
}

}  // namespace ft
