#include "app/files/merger.h"

#include <algorithm>

#include "app/config/gguf_base.h"
#include "app/config/head_settings.h"
#include "engine/files/file.h"
#include "engine/ops/ops.h"

namespace ft {

RunConfig merge_config(const std::string& model, const std::string& adapter) {
  RunConfig c;
  c.model.model_name_or_path = model;
  prepare_base(c.model);
  c.training.bf16 = false;
  c.finetuning_type = adapter.empty() ? FinetuningType::full : FinetuningType::lora;
  if (!adapter.empty()) c.lora.adapter_name_or_path = adapter;
  if (const auto trained = trained_objective(model, adapter)) c.objective = *trained;
  take_head_settings(c);
  return c;
}

Purpose merge_purpose(const RunConfig& c) {
  const auto& adapter = c.lora.adapter_name_or_path;
  const std::string file = join_path(c.model.folder(), "config.json");
  const bool fixed =
      adapter ? lora::is_folded(*adapter) : lora::stored_four_bit_plan(file) || lora::stored_fp8_plan(file);
  return {.work = fixed ? Work::compute : Work::train};
}

Merger::Merger(const BuiltModel& b, std::optional<DType> computed)
    : built_(b), ops_(make_ops({})), computed_(computed) {
  if (b.lora_config.alora_invocation_tokens)
    throw UserError(
        Exit::input,
        str(b.start->config_file(),
            ": alora_invocation_tokens: an adapter that acts from tokens on cannot be merged into "
            "weights, in PEFT neither; use it as it is"));
  const std::string head = b.made.info.head_weight();
  for (std::size_t i = 0; i < b.attached.linears.size(); ++i)
    adapters_[b.attached.weights[i]] = b.attached.adapters[i];
  for (const lora::ExpertPart& part : b.attached.experts) experts_.emplace(part.weight, &part);
  EachParameter each([&](Parameter& p) {
    own_head_ |= p.name == head;
    if (p.wide) wide_.insert(p.stored_name());
    if (b.start && !p.name.starts_with(lora::kPeftPrefix) && b.start->has(p))
      whole_[p.name == head ? p.name : p.stored_name()] = &p;
  });
  b.model().visit(each);
  EachLinear stored([&](Linear& l) {
    if (l.weight->inputs_first()) inputs_first_.insert(l.name + ".weight");
    find_bias(l);
  });
  b.model().visit(stored);
  const bool apart = b.attached.embedding && !b.attached.tied_lora;
  unties_ = b.made.info.tied_head && (own_head_ || adapters_.contains(head) || apart);
}

Merger::~Merger() = default;

const std::string& Merger::source_of(const std::string& name) const {
  const ModelInfo& info = built_.made.info;
  const auto& copies = info.embedding_copies;
  const bool table = std::find(copies.begin(), copies.end(), name) != copies.end() ||
                     (info.tied_head && name == info.head_weight());
  return table ? info.embedding : name;
}

std::vector<TensorSpec> Merger::specs(std::optional<DType> dtype) const {
  std::vector<TensorSpec> out;
  for (const std::string& name : built_.base->names()) {
    const WeightInfo info = built_.base->info(name);
    const auto stored = dtype_of(info.type);
    if (!stored)
      throw UserError(Exit::input, str(info.file, ": ", printable(name), " is ", name_of(info.type),
                                       ", not a float type"));
    Shape shape;
    if (info.shape.size() > std::size(shape.dims))
      throw UserError(Exit::input, str(info.file, ": ", printable(name), " has too many dimensions"));
    for (const auto d : info.shape) shape.dims[shape.rank++] = d;
    out.push_back({name, wide_.contains(name) ? DType::f32 : dtype.value_or(*stored), shape});
  }
  const std::string head = built_.made.info.head_weight();
  for (const auto& [name, p] : whole_)
    if (built_.is_score(*p) && !built_.base->has(name))
      out.push_back({name, dtype.value_or(built_.dtype), p->shape});
  if (unties() && !built_.base->has(head)) {
    auto embedding =
        std::find_if(out.begin(), out.end(), [&](auto& s) { return s.name == built_.made.info.embedding; });
    require(embedding != out.end(), "a tied model has an embedding");
    out.push_back({head, embedding->dtype, embedding->shape});
  }
  return out;
}

Tensor Merger::operator()(const TensorSpec& spec) {
  Tensor y = room(values_, spec.shape);
  const std::string& source = source_of(spec.name);
  const bool head = spec.name == built_.made.info.head_weight();
  const auto whole = whole_.find(head && own_head_ ? spec.name : source);
  if (whole != whole_.end())
    built_.start->read(*whole->second, y, 0);
  else
    built_.base->read(source, y, 0);
  if (!wide_.contains(source)) round(y);
  if (head && own_head_)
    put_tokens(spec.name, y);
  else if (source == built_.made.info.embedding)
    put_tokens(built_.model().vocabulary().embedding.weight.name, y);
  const lora::EmbeddingLora* embedding = built_.attached.embedding;
  if (embedding && source == built_.made.info.embedding && !(head && unties_))
    add_lora(embedding->a, embedding->b, embedding->scale(), y, true);
  if (const auto found = adapters_.find(spec.name); found != adapters_.end())
    merge_linear(*found->second, y, inputs_first(spec.name));
  if (const auto found = biases_.find(spec.name); found != biases_.end()) merge_bias(*found->second, y);
  const auto [first, end] = experts_.equal_range(spec.name);
  std::for_each(first, end, [&](const auto& part) { add_expert(*part.second, y); });
  const float scale = head && unties_ ? built_.made.info.head_scale : 1;
  if (scale != 1) std::for_each_n(y.as<float>(), y.numel(), [&](float& v) { v *= scale; });
  return y;
}

void Merger::put_tokens(const std::string& weight, const Tensor& table) {
  for (const lora::TokenTable& t : built_.attached.tokens) {
    if (t.weight != weight) continue;
    held_ = nullptr;
    const Tensor rows = room(a_, t.values->shape);
    built_.start->read(*t.values, rows, 0);
    for (std::size_t i = 0; i < t.ids.size(); ++i)
      std::copy_n(rows.as<float>() + static_cast<std::int64_t>(i) * rows.cols(), rows.cols(),
                  table.as<float>() + t.ids[i] * table.stride);
  }
}

// Adds s B A to the weight W (out, in), or its transpose if the weight is stored as (in, out) (`turned`).
void Merger::add_lora(const Parameter& a, const Parameter& b, float scale, const Tensor& y, bool turned) {
  held_ = nullptr;  // a_ and b_ are overwritten
  const Tensor down = room(a_, a.shape), up = room(b_, b.shape);
  built_.start->read(a, down, 0);
  built_.start->read(b, up, 0);
  lora::add_product(*ops_, y, down, up, scale, turned);
}

void Merger::find_bias(const Linear& l) {
  const auto* adapter = dynamic_cast<const lora::LinearAdapter*>(l.adapter.get());
  if (!adapter || !adapter->changes_bias()) return;
  if (!l.bias)
    throw UserError(Exit::input, str(built_.start->config_file(), ": lora_bias: ", l.name,
                                     " has no bias into which the adapter's could be merged; PEFT does not "
                                     "merge it either. Use the adapter as it is"));
  biases_[l.bias->stored_name()] = adapter;
}

lora::ParameterValues Merger::values_in(std::list<std::vector<float>>& held) const {
  return [this, &held](const Parameter& p) {
    Tensor of = room(held.emplace_back(), p.shape);
    of.dtype = lora::read_type(p);
    built_.start->read(p, of, 0);
    if (of.dtype == DType::f32) round(of);
    return of;
  };
}

void Merger::merge_linear(const lora::LinearAdapter& l, const Tensor& y, bool turned) {
  std::list<std::vector<float>> held;
  l.merge(*ops_, values_in(held), y, turned);
}

void Merger::merge_bias(const lora::LinearAdapter& l, const Tensor& y) {
  std::list<std::vector<float>> held;
  l.merge_bias(values_in(held), y);
}

// Adds the adapter of one expert. Reads the adapter of all experts once for consecutive experts of a layer.
void Merger::add_expert(const lora::ExpertPart& part, Tensor y) {
  const lora::ExpertsLora& all = *part.all;
  const std::int64_t r = all.rank(), count = all.experts();
  const Tensor a = room(a_, all.a.shape), b = room(b_, all.b.shape);
  if (held_ != &all) {
    held_ = nullptr;
    built_.start->read(all.a, a, 0);
    built_.start->read(all.b, b, 0);
    held_ = &all;
  }
  const Tensor own = room(own_b_, {part.rows, r});  // column j of B_e is column j E + e of B
  for (std::int64_t i = 0; i < part.rows; ++i)
    for (std::int64_t j = 0; j < r; ++j)
      own.as<float>()[i * r + j] = b.as<float>()[(part.first + i) * r * count + j * count + part.expert];
  const Tensor down = a.slice(part.expert * r, (part.expert + 1) * r);
  if (!part.stacked) return product(*ops_, y, {own, Trans::no, down, Trans::no}, all.scale(), y);
  const std::int64_t in = down.cols();
  const Tensor matrix = y.elements(part.expert * in * part.rows, in * part.rows).view({in, part.rows});
  product(*ops_, matrix, {down, Trans::yes, own, Trans::yes}, all.scale(), matrix);
}

void Merger::round(const Tensor& values) const {
  const auto each = [&](auto t) {
    std::for_each_n(values.as<float>(), values.numel(), [&](float& v) {
      from_float(t, v);
      v = to_float(t);
    });
  };
  if (computed_ == DType::bf16) each(bf16{});
  if (computed_ == DType::f16) each(f16{});
}

Tensor Merger::room(std::vector<float>& values, const Shape& shape) {
  values.resize(static_cast<std::size_t>(shape.numel()));
  return {reinterpret_cast<std::byte*>(values.data()), DType::f32, shape};
}

}  // namespace ft
