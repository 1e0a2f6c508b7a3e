// Adapters that requests load into the slots of an AdapterChoice.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>

#include "lora/choice.h"
#include "lora/choice_rules.h"
#include "lora/matching.h"

namespace ft::lora {
namespace {

// Reads a parameter's tensor, times `scale`, as floats.
std::vector<float> scaled_values(const AdapterFolder& folder, const Parameter& p, float scale) {
  std::vector<float> all(static_cast<std::size_t>(p.shape.numel()));
  folder.read(p, {reinterpret_cast<std::byte*>(all.data()), DType::f32, p.shape}, 0);
  for (float& x : all) x *= scale;
  return all;
}

template <class T>
void store_as(std::vector<std::byte>& to, std::size_t at, float value) {
  T narrow;
  from_float(narrow, value);
  std::memcpy(to.data() + at * sizeof(T), &narrow, sizeof(T));
}

// Writes rows of `columns` numbers to the beginnings of the parameter's rows; the rest is zero.
std::vector<std::byte> padded(const Parameter& p, const std::vector<float>& values, std::int64_t columns) {
  std::vector<std::byte> all(static_cast<std::size_t>(p.shape.numel() * size_of(p.dtype)));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto n = static_cast<std::size_t>(columns);
    const std::size_t at = i / n * static_cast<std::size_t>(p.shape[1]) + i % n;
    if (p.dtype == DType::bf16)
      store_as<bf16>(all, at, values[i]);
    else if (p.dtype == DType::f16)
      store_as<f16>(all, at, values[i]);
    else
      std::memcpy(all.data() + at * sizeof(float), &values[i], sizeof(float));
  }
  return all;
}

// Returns a Linear's name from the name of its A.
std::string adapted_by(const std::string& a) {
  const std::string_view prefix = kPeftPrefix, suffix = ".lora_A.weight";
  require(a.starts_with(prefix) && a.ends_with(suffix), "the name of an A");
  return a.substr(prefix.size(), a.size() - prefix.size() - suffix.size());
}

}  // namespace

SlotValues AdapterChoice::read_slot(const std::string& path) const {
  const AdapterFolder folder(path);
  const LoraConfig& c = folder.config();
  if (const std::string what = shared_part(c, folder, embedding_); !what.empty()) refuse_choice(folder, what);
  struct Form {
    const Parameter *a = nullptr, *b = nullptr;  // null: the adapter has nothing for this linear
    std::int64_t rank = 0;
    float scale = 0;
  };
  std::deque<Parameter> parameters;
  std::vector<const Parameter*> known;
  std::vector<Form> forms;
  for (const OfSlot& own : of_slots_.at(0)) {
    Form& form = forms.emplace_back();
    if (folder.shape_of({.name = own.name_a}).empty()) continue;
    const std::string module = adapted_by(own.name_a);
    form.rank = pattern_value(c.rank_pattern, module, "rank_pattern", Exit::input).value_or(c.r);
    if (form.rank < 1 || form.rank > slots_.rank)
      throw UserError(Exit::input,
                      str(folder.config_file(), ": r is ", form.rank, " for ", module,
                          "; this server has room for ranks up to ", slots_.rank, " (--max-lora-rank)"));
    const double alpha =
        pattern_value(c.alpha_pattern, module, "alpha_pattern", Exit::input).value_or(c.lora_alpha);
    const auto rank = static_cast<double>(form.rank);
    form.scale = static_cast<float>(alpha / (c.use_rslora ? std::sqrt(rank) : rank));
    form.a = &parameters.emplace_back(Parameter{.name = own.name_a, .shape = {form.rank, own.a->shape[1]}});
    form.b = &parameters.emplace_back(Parameter{.name = own.name_b, .shape = {own.b->shape[0], form.rank}});
    known.insert(known.end(), {form.a, form.b});
  }
  folder.expect_only(known);
  SlotValues all;
  for (std::size_t i = 0; i < forms.size(); ++i) {
    const OfSlot& own = of_slots_[0][i];
    const Form& f = forms[i];
    all.of.push_back(
        padded(*own.a, f.a ? scaled_values(folder, *f.a, 1) : std::vector<float>{}, own.a->shape[1]));
    all.of.push_back(padded(*own.b, f.b ? scaled_values(folder, *f.b, f.scale) : std::vector<float>{},
                            std::max<std::int64_t>(1, f.rank)));
  }
  return all;
}

void AdapterChoice::write_slot(Ops& ops, std::int32_t slot, const SlotValues& values) {
  const std::vector<OfSlot>& own = of_slots_.at(static_cast<std::size_t>(slot));
  require(values.of.size() == 2 * own.size(), "the values of another model's adapter");
  for (std::size_t i = 0; i < own.size(); ++i) {
    ops.upload(own[i].a->value, values.of[2 * i].data());
    ops.upload(own[i].b->value, values.of[2 * i + 1].data());
  }
  ops.synchronize();
}

}  // namespace ft::lora
