#include "lora/peft.h"

#include <algorithm>
#include <cctype>

#include "engine/files/file.h"
#include "engine/files/safetensors/safetensors_write.h"
#include "engine/files/safetensors/same_values.h"

namespace ft::lora {
namespace {

constexpr const char* kWeights = "adapter_model.safetensors";
constexpr const char* kConfig = "adapter_config.json";
constexpr const char* kBaseWeight = ".base_layer.weight";
constexpr const char* kOriginal = ".original_module.weight";
constexpr const char* kTokens = ".token_adapter.trainable_tokens_delta";
constexpr const char* kBelowTokens = ".token_adapter.base_layer.weight";

// Returns a name without `part` after PEFT's prefix; unchanged if it has none.
std::string without(const std::string& part, const std::string& name) {
  const std::string all = kPeftPrefix + part;
  return !part.empty() && name.starts_with(all) ? kPeftPrefix + name.substr(all.size()) : name;
}

// Appends the names that an adapter has for a larger model with images, and for a model without a head, whose
// names are shorter.
std::vector<std::string> with_nested(std::vector<std::string> names) {
  const std::size_t own = names.size();
  for (std::size_t i = 0; i < own; ++i) names.push_back(nested_name(names[i], "language_model."));
  for (std::size_t i = 0; i < own; ++i)
    for (const char* outer : {"model.", "transformer.", "gpt_neox."})
      if (std::string bare = without(outer, names[i]); bare != names[i]) names.push_back(std::move(bare));
  return names;
}

// Returns the possible names of a base parameter in the file; the first that exists is used. It may be a copy
// that was trained completely, which PEFT repeats under the module's name, or be in PEFT's wrapper of an
// adapted module.
std::vector<std::string> possible_names(const std::string& of_base) {
  const std::string name = in_peft(of_base);
  if (name.starts_with(kPeftPrefix)) return with_nested({name});
  const auto dot = name.rfind('.');
  const std::string module = kPeftPrefix + name.substr(0, dot), last = name.substr(dot);
  return with_nested({module + ".modules_to_save" + last, module + ".modules_to_save.default" + last,
                      module + last, module + ".base_layer" + last,
                      module + ".token_adapter.base_layer" + last});
}

std::string module_of(const std::string& parameter) { return parameter.substr(0, parameter.rfind('.')); }

// Returns true if a parameter is a table with trained single rows.
bool below_tokens(const Parameter& p, const Attached& a) {
  return std::ranges::any_of(a.tokens, [&](const TokenTable& t) { return t.weight == p.name; });
}

// Returns true if a module has an adapter in addition to its weight.
bool is_adapted(const std::string& module, const Attached& a) {
  return std::ranges::find(a.linears, module) != a.linears.end() ||
         (a.embedding && module == a.embedding_module);
}

std::vector<const Parameter*> trained(const Attached& a) {
  std::vector<const Parameter*> all(a.whole.begin(), a.whole.end());
  for (LinearAdapter* l : a.adapters)
    for (const Parameter* p : l->trained()) all.push_back(p);
  for (const TokenTable& t : a.tokens) all.push_back(t.values);
  if (a.embedding) all.insert(all.end(), {&a.embedding->a, &a.embedding->b});
  for (const ExpertsLora* l : adapters_of(a.experts)) all.insert(all.end(), {&l->a, &l->b});
  return all;
}

std::vector<std::int64_t> dims_of(const Parameter& p) {
  const Shape& s = p.whole_shape();
  return {s.dims, s.dims + s.rank};
}

// Throws if the folder has only the format that PEFT wrote before safetensors.
void refuse_pickle(const std::string& folder, Exit exit) {
  constexpr const char* kPickle = "adapter_model.bin";
  if (path_exists(join_path(folder, kWeights)) || !path_exists(join_path(folder, kPickle))) return;
  throw UserError(exit,
                  str(printable(folder), ": has no ", kWeights, ", only ", kPickle,
                      "; a pickle can run code and is not read. Convert it once, where PEFT is installed:\n"
                      "  PeftModel.from_pretrained(base, folder).save_pretrained(new_folder)"));
}

}  // namespace

AdapterFolder::AdapterFolder(const std::string& folder, Exit exit, KindsRead kinds)
    : exit_(exit), config_file_(join_path(folder, kConfig)) {
  config_ = read_adapter_config(config_file_, exit, kinds);
  refuse_pickle(folder, exit);
  weights_ = std::make_unique<SafetensorsFile>(join_path(folder, kWeights), exit);
}

const StoredTensor* AdapterFolder::find(const std::string& parameter) const {
  for (const std::string& name : possible_names(parameter))
    if (const StoredTensor* t = weights_->find(name)) return t;
  return nullptr;
}

const StoredTensor* AdapterFolder::find(const Parameter& p) const {
  const StoredTensor* own = find(p.name);
  if (own || shared_.first.empty()) return own;
  if (p.name == shared_.first) return find(shared_.second);
  // The copy of the embedding was trained, and the head kept the original table.
  if (p.name == shared_.second)
    return weights_->find(kPeftPrefix + in_peft(module_of(shared_.first)) + kOriginal);
  return nullptr;
}

void AdapterFolder::read(const Parameter& p, Tensor y, std::int64_t first) const {
  const StoredTensor* t = find(p);
  require(t != nullptr, "an adapter's tensor that expect() did not see");
  weights_->read(*t, y, first);
}

void AdapterFolder::expect_shape(const StoredTensor& t, const std::vector<std::int64_t>& shape) const {
  if (t.shape != shape)
    throw UserError(exit_, str(weights_->path(), ": ", t.name, " is ", shape_text(t.shape),
                               ", the model and ", config_file_, " ask for ", shape_text(shape)));
  if (!dtype_of(t.type) || bits_of(t.type) < 16)
    throw UserError(exit_, str(weights_->path(), ": ", t.name, " is ", name_of(t.type),
                               ", not a float type that ft reads"));
}

std::vector<std::int64_t> AdapterFolder::shape_of(const Parameter& p) const {
  const StoredTensor* t = find(p);
  return t ? t->shape : std::vector<std::int64_t>{};
}

void AdapterFolder::expect_only(const std::vector<const Parameter*>& all) const {
  std::vector<const StoredTensor*> used;
  for (const Parameter* p : all) {
    const StoredTensor* t = find(*p);
    if (!t) throw UserError(exit_, str(weights_->path(), ": ", p->name, " is missing"));
    expect_shape(*t, dims_of(*p));
    used.push_back(t);
  }
  for (const StoredTensor& t : weights_->tensors())
    if (std::ranges::find(used, &t) == used.end())
      throw UserError(exit_, str(weights_->path(), ": ", printable(t.name),
                                 " is not of LoRA on a linear inside the model's blocks"));
}

std::int64_t AdapterFolder::rows_of(const std::string& embedding, const std::string& head) const {
  std::int64_t rows = 0;
  for (const std::string& table : {embedding, head})
    for (const std::string& name : possible_names(table))
      if (const StoredTensor* t = weights_->find(name); t && !t->shape.empty())
        rows = std::max(rows, t->shape[0]);
  return rows;
}

void AdapterFolder::share_table(const std::string& embedding, const std::string& head) {
  shared_ = {embedding, head};
}

bool AdapterFolder::has_single_experts() const {
  constexpr std::string_view kExperts = ".experts.";
  return std::ranges::any_of(weights_->tensors(), [&](const StoredTensor& t) {
    const std::size_t at = t.name.find(kExperts);
    return at != t.name.npos && std::isdigit(static_cast<unsigned char>(t.name[at + kExperts.size()]));
  });
}

void AdapterFolder::expect(const Attached& attached, const std::vector<const Parameter*>& tables) const {
  std::vector<const StoredTensor*> used;
  for (const Parameter* p : tables)
    if (const StoredTensor* t = find(*p)) {
      expect_shape(*t, dims_of(*p));
      used.push_back(t);
    }
  for (const Parameter* p : trained(attached)) used.push_back(&expect_own(*p, attached));
  for (LinearAdapter* l : attached.adapters)
    for (const Parameter* p : l->fixed()) used.push_back(&expect_fixed(*l, *p, attached));
  for (const StoredTensor& t : weights_->tensors())
    if (std::find(used.begin(), used.end(), &t) == used.end()) expect_frozen(t, attached, tables);
}

const StoredTensor& AdapterFolder::expect_own(const Parameter& p, const Attached& attached) const {
  const StoredTensor* t = find(p);
  if (!t)
    throw UserError(exit_, str(weights_->path(), ": ", peft_name(p, attached), " is missing; ", config_file_,
                               " expects it"));
  expect_shape(*t, dims_of(p));
  return *t;
}

const StoredTensor& AdapterFolder::expect_fixed(const LinearAdapter& l, const Parameter& p,
                                                const Attached& attached) const {
  const StoredTensor& t = expect_own(p, attached);
  std::vector<std::byte> memory(static_cast<std::size_t>(p.whole_shape().numel() * size_of(p.dtype)));
  const Tensor values(memory.data(), p.dtype, p.whole_shape());
  weights_->read(t, values, 0);
  if (const std::string fault = l.fault_of(values); !fault.empty())
    throw UserError(exit_, str(weights_->path(), ": ", t.name, ": ", fault));
  return t;
}

// PEFT writes the tensors that a tied head shares with the embedding a second time. Returns true for such a
// tensor.
bool AdapterFolder::repeats_for_head(const StoredTensor& t, const Attached& attached,
                                     const StoredTensor* table) const {
  const std::string head = kPeftPrefix + in_peft(attached.head);
  if (t.name == head + kOriginal || t.name == head + kBaseWeight) return true;
  if (const auto names = possible_names(attached.head + ".weight");
      table && std::ranges::find(names, t.name) != names.end()) {
    const auto read = [&](const StoredTensor& of) {
      return [&](const Tensor& to, std::int64_t first) { weights_->read(of, to, first); };
    };
    if (t.shape == table->shape && same_values(t.numel, read(t), read(*table))) return true;
    throw UserError(exit_, str(weights_->path(), ": ", t.name, " and ", table->name,
                               " differ, and the model has one table for both"));
  }
  if (!attached.tokens.empty() && (t.name == head + kTokens || t.name == head + kBelowTokens)) return true;
  return attached.tied_lora && (t.name == head + ".lora_A.weight" || t.name == head + ".lora_B.weight");
}

void AdapterFolder::expect_frozen(const StoredTensor& t, const Attached& attached,
                                  const std::vector<const Parameter*>& tables) const {
  for (std::size_t i = 0; i < attached.linears.size(); ++i) {
    if (t.name != kPeftPrefix + in_peft(attached.linears[i]) + kBaseWeight) continue;
    const Shape& shape = attached.adapters[i]->weight_shape();
    expect_shape(t, {shape[0], shape[1]});
    return;
  }
  for (const Parameter* p : tables) {
    const std::string module = kPeftPrefix + in_peft(module_of(p->name));
    const auto names = possible_names(p->name);
    if (t.name == module + kOriginal || std::ranges::find(names, t.name) != names.end())
      return expect_shape(t, dims_of(*p));
  }
  if (tables.size() == 1 && repeats_for_head(t, attached, find(*tables[0]))) return;
  throw UserError(exit_, str(weights_->path(), ": ", printable(t.name), " belongs to nothing that ",
                             config_file_, " adapts in this model"));
}

std::string peft_name(const Parameter& p, const Attached& attached) {
  const auto stored = [&](const std::string& name) {
    return without(attached.bare, nested_name(name, attached.nested));
  };
  if (p.name.starts_with(kPeftPrefix)) return stored(p.name);
  const std::string module = module_of(p.name), last = p.name.substr(module.size()),
                    name = stored(kPeftPrefix + in_peft(module));
  if (below_tokens(p, attached)) return name + kBelowTokens;
  return name + (is_adapted(module, attached) ? ".base_layer" : "") + last;
}

std::string frozen_head_name(const Attached& attached) {
  const bool adapted =
      std::find(attached.linears.begin(), attached.linears.end(), attached.head) != attached.linears.end();
  return adapted ? str(kPeftPrefix, in_peft(attached.head), kBaseWeight) : "";
}

void create_adapter(const std::string& folder, const LoraConfig& config, const Attached& attached,
                    const std::string& base_model, std::optional<DType> frozen_head,
                    const std::vector<TensorSpec>& tables) {
  std::vector<TensorSpec> specs = tables;
  for (const Parameter* p : trained(attached))
    specs.push_back({peft_name(*p, attached), DType::f32, p->whole_shape()});
  for (LinearAdapter* l : attached.adapters)
    for (const Parameter* p : l->fixed())
      specs.push_back({peft_name(*p, attached), p->dtype, p->whole_shape()});
  for (std::size_t i = 0; frozen_head && i < attached.linears.size(); ++i)
    if (attached.linears[i] == attached.head)
      specs.push_back({frozen_head_name(attached), *frozen_head, attached.adapters[i]->weight_shape()});
  write_safetensors(join_path(folder, kWeights), specs, {});
  write_file(join_path(folder, kConfig), adapter_config_text(config, attached, base_model));
}

}  // namespace ft::lora
