#include "app/gguf/types.h"

#include <algorithm>
#include <charconv>
#include <iterator>

#include "engine/core/error.h"

namespace ft {
namespace {

constexpr GgufForm kForms[] = {{"float32", GgmlType::f32, 0},        {"float16", GgmlType::f16, 1},
                               {"bfloat16", GgmlType::bf16, 32},     {"q8_0", GgmlType::q8_0, 7},
                               {"q6_k", GgmlType::q6_k, 18},         {"q5_k_m", GgmlType::q5_k, 17, true},
                               {"q4_k_m", GgmlType::q4_k, 15, true}, {"q5_0", GgmlType::q5_0, 8},
                               {"q4_0", GgmlType::q4_0, 2},          {"iq4_nl", GgmlType::iq4_nl, 25}};

bool has(const std::string& name, const char* part) { return name.find(part) != std::string::npos; }

// Returns a number among the model's keys, or 0 if there is no such key.
std::int64_t number_of(const GgufModel& model, const std::string& key) {
  for (const auto& [name, value] : model.keys)
    if (const auto* n = std::get_if<std::uint32_t>(&value); n && name == model.architecture + "." + key)
      return *n;
  return 0;
}

// Sorts tensors by layer, then by name: the order in which llama.cpp's quantizer counts them.
int layer_of(const std::string& name) {
  int layer = -1;
  if (name.starts_with("blk.")) std::from_chars(name.data() + 4, name.data() + name.size(), layer);
  return layer;
}
std::vector<GgufTensor*> in_order(std::vector<GgufTensor>& tensors) {
  std::vector<GgufTensor*> all;
  for (GgufTensor& t : tensors) all.push_back(&t);
  std::ranges::sort(all, {}, [](const GgufTensor* t) { return std::pair(layer_of(t->name), t->name); });
  return all;
}

bool deserves_more(std::int64_t i, std::int64_t of) {
  return i < of / 8 || i >= 7 * of / 8 || (i - of / 8) % 3 == 2;
}

// Chooses the types of mixed forms: values, down projections, and the attention of models with eight experts
// get more bits.
class Mixture {
 public:
  Mixture(const GgufForm& form, const GgufModel& model, const std::vector<GgufTensor>& tensors)
      : form_(form),
        levels_(form.type == GgmlType::iq4_nl),
        layers_(number_of(model, "block_count")),
        experts_(number_of(model, "expert_count")),
        values_(std::ranges::count_if(tensors, [](const GgufTensor& t) { return is_value(t.name); })) {
    const std::int64_t heads = number_of(model, "attention.head_count"),
                       kv_heads = number_of(model, "attention.head_count_kv");
    shared_ = kv_heads > 0 ? heads / kv_heads : 1;
    // llama.cpp assumes that a model of 80 layers with grouped key heads is LLaMA-2-70B.
    seventy_ =
        layers_ == 80 && (model.architecture == "qwen2" || (model.architecture == "llama" && shared_ > 1));
  }
  // Returns the type of the next tensor; call it in the order of in_order().
  GgmlType next(const std::string& name) {
    if (is_value(name)) return of_value();
    if (experts_ == 8 && has(name, "attn_k.weight")) return GgmlType::q8_0;
    if (experts_ == 8 && has(name, "attn_output.weight") && (form_.type == GgmlType::q4_k || levels_))
      return GgmlType::q5_k;
    return has(name, "ffn_down") ? of_down(experts_ > 1 ? layer_of(name) : down_++) : form_.type;
  }

 private:
  static bool is_value(const std::string& name) {
    return has(name, "attn_v.weight") || has(name, "attn_qkv.weight");
  }
  GgmlType of_value() {
    const std::int64_t i = value_++;
    if (experts_ == 8) return GgmlType::q8_0;
    if (levels_ && shared_ >= 4) return GgmlType::q5_k;
    if (form_.mixed && deserves_more(i, values_)) return GgmlType::q6_k;
    return seventy_ && form_.type == GgmlType::q4_k ? GgmlType::q5_k : form_.type;
  }
  GgmlType of_down(std::int64_t layer) const {
    if (levels_ && layer < layers_ / 8) return GgmlType::q5_k;
    return form_.mixed && deserves_more(layer, layers_) ? GgmlType::q6_k : form_.type;
  }

  const GgufForm& form_;
  bool levels_, seventy_ = false;
  std::int64_t layers_, experts_, values_, shared_ = 1, value_ = 0, down_ = 0;
};

}  // namespace

const GgufForm& gguf_form(const std::string& dtype) {
  const auto* at = std::ranges::find(kForms, dtype, &GgufForm::name);
  require(at != std::end(kForms), "a type that the command line has not checked");
  return *at;
}

std::vector<std::string> gguf_dtypes() {
  std::vector<std::string> names;
  for (const GgufForm& f : kForms) names.emplace_back(f.name);
  return names;
}

GgmlType gguf_type_of(const GgufTensor& t, GgmlType type) {
  if (t.shape.size() < 2) return GgmlType::f32;
  for (const char* kept : {"_exps.bias", "_norm.weight", "attn_rel_b.weight", "ffn_gate_inp.weight",
                           "position_embd.weight", "ssm_conv1d.weight"})
    if (t.name.ends_with(kept)) return GgmlType::f32;
  const auto fits = [&](GgmlType to) { return t.shape.back() % form_of(to)->block == 0; };
  if (fits(type)) return type;
  if (type == GgmlType::q4_k) type = GgmlType::q5_0;
  if (type == GgmlType::q5_k) type = GgmlType::q5_1;
  if (type == GgmlType::q6_k) type = GgmlType::q8_0;
  return fits(type) ? type : GgmlType::f16;
}

void choose_gguf_types(const GgufForm& form, const GgufModel& model, std::vector<GgufTensor>& tensors) {
  const bool has_head = std::ranges::find(tensors, "output.weight", &GgufTensor::name) != tensors.end();
  const std::string head = has_head ? "output.weight" : "token_embd.weight";
  Mixture mixture(form, model, tensors);
  for (GgufTensor* t : in_order(tensors)) {
    const bool vector = t->shape.size() < 2;  // vectors do not count
    GgmlType type = form.quantized() && !vector ? mixture.next(t->name) : form.type;
    if (form.quantized() && type != GgmlType::q8_0 && t->name == head) type = GgmlType::q6_k;
    t->type = gguf_type_of(*t, type);
  }
}

}  // namespace ft
