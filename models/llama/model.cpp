#include "models/llama/model.h"

#include <algorithm>

#include "models/llama/positions.h"

namespace ft::llama {
Llama::Llama(Config config, DType dtype) : config_(std::move(config)) {
  const std::int64_t V = config_.vocab_size, C = config_.hidden_size;
  embed_tokens_.weight = {.name = "model.embed_tokens.weight", .shape = {V, C}, .dtype = dtype};
  for (std::int64_t i = 0; i < config_.num_hidden_layers; ++i)
    stack_.blocks.push_back(make_block(config_, i, dtype));
  head_.norm = make_rms_norm("model.norm", C, config_.rms_norm_eps, dtype);
  head_.lm_head = make_linear("lm_head", C, V, false, dtype);
  if (config_.tie_word_embeddings) head_.lm_head.weight = std::make_unique<TiedWeight>(embed_tokens_.weight);
}

void Llama::untie() {
  if (!config_.tie_word_embeddings) return;
  Parameter table = embed_tokens_.weight;
  table.name = "lm_head.weight";
  table.stored_as = embed_tokens_.weight.name;
  head_.lm_head.weight = std::make_unique<DenseWeight>(std::move(table));
  config_.tie_word_embeddings = false;
}

void Llama::visit(Visitor& v) {
  v.unit("model.embed_tokens");
  embed_tokens_.visit(v);
  for (std::size_t i = 0; i < stack_.blocks.size(); ++i) {
    v.unit("model.layers." + std::to_string(i));
    stack_.blocks[i].visit(v);
  }
  v.unit("lm_head");
  head_.visit(v);
}

void Llama::add_units(ParameterStore& store) {
  embed_unit_ = store.add_unit("model.embed_tokens", parameters_of(embed_tokens_));
  stack_.units.clear();
  stack_.first = stack_.blocks.size();
  for (std::size_t i = stack_.blocks.size(); i-- > 0;)
    if (any_trained(stack_.blocks[i])) stack_.first = i;
  if (any_trained(embed_tokens_)) stack_.first = 0;
  for (std::size_t i = 0; i < stack_.blocks.size(); ++i)
    stack_.units.push_back(
        store.add_unit("model.layers." + std::to_string(i), parameters_of(stack_.blocks[i])));
  head_unit_ = store.add_unit("lm_head", parameters_of(head_));
  forward_units_ = {embed_unit_};
  forward_units_.insert(forward_units_.end(), stack_.units.begin(), stack_.units.end());
  forward_units_.push_back(head_unit_);
  if (config_.tie_word_embeddings) forward_units_.push_back(embed_unit_);
}

std::vector<int> Llama::step_units(const ParameterStore& store) const {
  std::vector<int> units = forward_units_;
  const std::vector<int> back = stack_.backward_units();
  units.insert(units.end(), back.begin(), back.end());
  if (store.trains(embed_unit_)) units.push_back(embed_unit_);
  return units;
}

Llama::Inputs Llama::upload(Ctx& c, const Batch& b) {
  auto ints = [&](const std::vector<std::int32_t>& values) {
    Tensor t = c.saved.take({static_cast<std::int64_t>(values.size())}, DType::i32);
    c.ops.upload(t, values.data());
    return t;
  };
  Inputs in{ints(b.input_ids), {ints(b.target_rows), ints(b.targets)}, {}};
  in.side.positions = ints(b.positions);
  in.side.starts = b.starts;
  const std::int64_t length = 1 + *std::max_element(b.positions.begin(), b.positions.end());
  cover(rope_, config_, length);
  in.side.cos = c.saved.take({length, config_.head_dim / 2}, DType::f32);
  in.side.sin = c.saved.take({length, config_.head_dim / 2}, DType::f32);
  c.ops.upload(in.side.cos, rope_.cos.data());
  c.ops.upload(in.side.sin, rope_.sin.data());
  return in;
}

Tensor Llama::embed(Ctx& c, ParameterStore& store, const Inputs& in) {
  Use use(store, embed_unit_, false);
  Tensor x = c.save(in.ids.numel(), config_.hidden_size);
  embed_tokens_.forward(c, x, in.ids);
  return x;
}

Tensor Llama::hidden(Ctx& c, ParameterStore& store, const Inputs& in) {
  store.expect(forward_units_);
  return stack_.evaluate(c, store, embed(c, store, in), in.side);
}

void Llama::forward(Ctx& c, ParameterStore& store, const Batch& b, Tensor loss) {
  Scope all(c.saved);
  const Inputs in = upload(c, b);
  Tensor x = hidden(c, store, in);
  HeadUse use(*this, store, false);
  head_.forward(c, loss, x, in.targets, 0);
}

void Llama::logits(Ctx& c, ParameterStore& store, const Batch& b, Tensor y) {
  Scope all(c.saved);
  const Inputs in = upload(c, b);
  Tensor x = hidden(c, store, in);
  HeadUse use(*this, store, false);
  head_.logits(c, y, x, in.targets.rows);
}

void Llama::forward_backward(Ctx& c, ParameterStore& store, const Batch& b, Tensor loss, float scale,
                             float smoothing) {
  Scope all(c.saved), scratch(c.scratch);
  store.expect(step_units(store));
  const Inputs in = upload(c, b);
  Tensor x = stack_.forward(c, store, embed(c, store, in), in.side);
  Tensor d = c.temporary(x.rows(), x.cols());
  {
    HeadUse use(*this, store, true);
    head_.forward_backward(c, loss, d, x, in.targets, scale, smoothing);
    store.reduce(head_unit_, true);
    if (use.table) store.reduce(embed_unit_, false);
  }
  const bool embed_grad = store.trains(embed_unit_);
  stack_.backward(c, store, d, in.side, embed_grad);
  if (!embed_grad) return;
  Use use(store, embed_unit_, true);
  embed_tokens_.backward(c, d, in.ids);
  store.reduce(embed_unit_, true);
}

}  // namespace ft::llama
