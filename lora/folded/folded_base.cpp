#include "lora/folded/folded_base.h"

#include <algorithm>

#include "engine/files/convert.h"
#include "engine/ops/ops.h"

namespace ft::lora {
namespace {

Tensor view(std::vector<float>& values, const Shape& shape) {
  return {reinterpret_cast<std::byte*>(values.data()), DType::f32, shape};
}

std::vector<float> turned(const std::vector<float>& w, std::int64_t rows, std::int64_t columns) {
  std::vector<float> y(w.size());
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c)
      y[static_cast<std::size_t>(c * rows + r)] = w[static_cast<std::size_t>(r * columns + c)];
  return y;
}

}  // namespace

FoldedBase::FoldedBase(std::unique_ptr<WeightSource> base, const std::string& folder, Model& model,
                       Origin origin, std::unique_ptr<Ops> ops)
    : base_(std::move(base)),
      ops_(std::move(ops)),
      adapter_(folder),
      folding_(adapter_.files.config().peft_type->folding) {
  require(folding_ != nullptr, "a kind of adapters that is not folded into weights");
  origin.prefix = adapter_.files.config_file() + ": ";
  origin.exit = Exit::input;
  origin.every_target = false;
  choose(model, origin);
  replace(model, origin);
  expect_no_more();
}

FoldedBase::~FoldedBase() = default;

void FoldedBase::choose(Model& model, const Origin& origin) {
  const AdapterKind& kind = *adapter_.files.config().peft_type;
  const std::vector<ChosenLinear> chosen = choose_linears(model, adapter_.files.config(), origin);
  for (const ChosenLinear& c : chosen) {
    adapter_.most_in = std::max(adapter_.most_in, c.linear->in);
    adapter_.most_out = std::max(adapter_.most_out, c.linear->out);
  }
  const auto refuse = [&](const Linear& l, const std::string& why) {
    throw UserError(Exit::input, str(origin.prefix, "target_modules: ", l.name, why,
                                     "; merge the adapter where PEFT is installed (merge_and_unload)"));
  };
  for (const ChosenLinear& c : chosen) {
    const Linear& l = *c.linear;
    const bool inputs_first = l.weight->inputs_first();
    if (l.name == origin.head && origin.tied_head) refuse(l, " has the embedding's table");
    if (inputs_first && !kind.inputs_first)
      refuse(l, str("'s weight is stored inputs first, and PEFT has no ", kind.title, " for it"));
    const auto [at, fresh] = linears_.try_emplace(c.weight, Changed{{adapter_, c}, inputs_first});
    require(fresh, "two linears with one weight");
    folding_->check(at->second.linear);
    if (folding_->change_bias && l.bias) biases_[l.bias->stored_name()] = &at->second.linear;
  }
  expect_whole(model, chosen, origin);
}

void FoldedBase::replace(Model& model, const Origin& origin) {
  const SafetensorsFile& file = adapter_.files.weights();
  const std::string embedding = origin.embedding + ".weight";
  EachParameter each([&](Parameter& p) {
    const StoredTensor* t = adapter_.files.find(p.name);
    if (!t) return;
    if (origin.tied_head && p.name == embedding)
      throw UserError(Exit::input, str(file.path(), ": ", t->name,
                                       ": the head shares this table, and ft "
                                       "reads no copies of it with such an adapter; merge the adapter where "
                                       "PEFT is installed (merge_and_unload)"));
    const std::vector<std::int64_t> shape(p.shape.dims, p.shape.dims + p.shape.rank);
    if (t->shape != shape)
      throw UserError(Exit::input, str(file.path(), ": ", t->name, " is ", shape_text(t->shape),
                                       ", the model asks for ", shape_text(shape)));
    adapter_.used.insert(t);
    whole_[p.stored_name()] = t;
  });
  model.visit(each);
}

void FoldedBase::expect_whole(Model& model, const std::vector<ChosenLinear>& chosen,
                              const Origin& origin) const {
  const LoraConfig& c = adapter_.files.config();
  const auto expect = [&](const std::string& parameter, const std::string& setting) {
    if (!adapter_.files.find(parameter))
      throw UserError(Exit::input, str(adapter_.files.weights().path(), ": has no ", parameter, ", which ",
                                       origin.prefix, setting, " asks for"));
  };
  EachParameter each([&](Parameter& p) {
    if (c.bias == LoraBias::all && p.name.ends_with(".bias")) expect(p.name, "bias");
    for (const std::string& m : c.modules_to_save.value_or(std::vector<std::string>{}))
      if (saves(m, p.name)) expect(p.name, "modules_to_save");
  });
  model.visit(each);
  for (const ChosenLinear& l : chosen)
    if (c.bias == LoraBias::lora_only && l.linear->bias) expect(l.linear->bias->name, "bias");
}

void FoldedBase::expect_no_more() const {
  for (const StoredTensor& t : adapter_.files.weights().tensors())
    if (!adapter_.used.contains(&t))
      throw UserError(Exit::input, str(adapter_.files.weights().path(), ": ", printable(t.name),
                                       " belongs to nothing that ", adapter_.files.config_file(),
                                       " adapts in this model"));
}

std::vector<std::string> FoldedBase::names() const {
  std::vector<std::string> all = base_->names();
  for (const auto& [name, _] : whole_)
    if (!base_->has(name)) all.push_back(name);
  std::ranges::sort(all);
  return all;
}

WeightInfo FoldedBase::info(const std::string& name) const {
  const auto whole = whole_.find(name);
  if (whole == whole_.end() || base_->has(name)) return base_->info(name);
  return {adapter_.files.weights().path(), whole->second->type, whole->second->shape};
}

void FoldedBase::read_unfolded(const std::string& name, const Tensor& to, std::int64_t first) const {
  const auto whole = whole_.find(name);
  if (whole == whole_.end()) return base_->read(name, to, first);
  adapter_.files.weights().read(*whole->second, to, first);
}

std::vector<float> FoldedBase::folded(const std::string& name) const {
  std::vector<float> values;
  if (const auto bias = biases_.find(name); bias != biases_.end()) {
    values.resize(static_cast<std::size_t>(bias->second->out));
    read_unfolded(name, view(values, {bias->second->out}), 0);
    folding_->change_bias(*bias->second, values);
  } else {
    const auto& [linear, inputs_first] = linears_.at(name);
    const std::int64_t in = linear.in, out = linear.out;
    values.resize(static_cast<std::size_t>(in * out));
    read_unfolded(name, view(values, {in * out}), 0);
    if (inputs_first) values = turned(values, in, out);
    folding_->change(*ops_, linear, view(values, {out, in}));
    if (inputs_first) values = turned(values, out, in);
  }
  if (find_nonfinite(values.data(), DType::f32, std::ssize(values)) >= 0)
    throw UserError(Exit::input, str(adapter_.files.weights().path(), ": with its adapter, ", name,
                                     " has values that are not finite"));
  return values;
}

void FoldedBase::read(const std::string& name, const Tensor& to, std::int64_t first) const {
  if (!linears_.contains(name) && !biases_.contains(name)) return read_unfolded(name, to, first);
  const std::lock_guard lock(folding_one_);
  if (held_ != name) {
    held_.clear();
    values_ = folded(name);
    held_ = name;
  }
  convert(to.data, to.dtype, values_.data() + first, DType::f32, to.numel());
}

StoredBytes FoldedBase::find_stored(const std::string& name, DType type, std::int64_t elements) const {
  if (linears_.contains(name) || biases_.contains(name) || whole_.contains(name)) return {};
  return base_->find_stored(name, type, elements);
}

}  // namespace ft::lora
