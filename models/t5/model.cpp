#include "models/t5/model.h"

#include <algorithm>
#include <cmath>

namespace ft::t5 {
namespace {

std::int64_t longest_of(const std::vector<std::int32_t>& starts) {
  std::int32_t most = 0;
  for (std::size_t i = 1; i < starts.size(); ++i) most = std::max(most, starts[i] - starts[i - 1]);
  return most;
}

}  // namespace

bool T5::Stack::trained() {
  bool any = any_trained(bias);
  for (Block& b : blocks.blocks) any |= any_trained(b);
  return any;
}

T5::Stack T5::make_stack(bool decoder, DType dtype) const {
  Stack s;
  s.name = decoder ? "decoder" : "encoder";
  s.bias.weight = {.name = s.name + ".block.0.layer.0.SelfAttention.relative_attention_bias.weight",
                   .shape = {config_.buckets, config_.num_heads},
                   .dtype = dtype,
                   .decays = false,
                   .deviation = config_.initializer_factor / std::sqrt(static_cast<double>(config_.d_model))};
  s.bias.bidirectional = !decoder;
  s.bias.max_distance = config_.max_distance;
  const std::int64_t layers = decoder ? config_.num_decoder_layers : config_.num_layers;
  for (std::int64_t i = 0; i < layers; ++i) s.blocks.blocks.push_back(make_block(config_, decoder, i, dtype));
  return s;
}

T5::T5(Config config, DType dtype) : config_(std::move(config)), dropout_{config_.dropout_rate} {
  const std::int64_t V = config_.vocab_size, C = config_.d_model;
  shared_.weight = {.name = "shared.weight",
                    .shape = {V, C},
                    .dtype = dtype,
                    .deviation = config_.initializer_factor,
                    .stored_as = config_.shared_name};
  encoder_ = make_stack(false, dtype);
  encoder_norm_ = make_rms_norm("encoder.final_layer_norm", C, config_.layer_norm_epsilon, dtype);
  decoder_ = make_stack(true, dtype);
  head_.norm = make_rms_norm("decoder.final_layer_norm", C, config_.layer_norm_epsilon, dtype);
  head_.lm_head = make_linear("lm_head", C, V, false, dtype);
  static_cast<DenseWeight&>(*head_.lm_head.weight).parameter.deviation = config_.initializer_factor;
  if (!config_.own_head) head_.lm_head.weight = std::make_unique<TiedWeight>(shared_.weight);
  if (config_.scale_outputs) head_.scale = config_.output_scale();
  head_.dropout = dropout_;
}

void T5::untie() {
  if (config_.own_head) return;
  Parameter table = shared_.weight;
  table.name = "lm_head.weight";
  table.stored_as = config_.shared_name;
  head_.lm_head.weight = std::make_unique<DenseWeight>(std::move(table));
  config_.own_head = true;
}

void T5::visit(Visitor& v) {
  v.unit("shared");
  shared_.visit(v);
  const auto visit_stack = [&](Stack& s) {
    v.unit(s.name + ".relative_attention_bias");
    s.bias.visit(v);
    for (std::size_t i = 0; i < s.blocks.blocks.size(); ++i) {
      v.unit(s.unit_of(i));
      s.blocks.blocks[i].visit(v);
    }
  };
  visit_stack(encoder_);
  v.unit("encoder.final_layer_norm");
  encoder_norm_.visit(v);
  visit_stack(decoder_);
  v.unit("lm_head");
  head_.visit(v);
}

// Where something above the blocks is trained (the embedding, the bias, of the decoder's cross-attention the
// encoder), all blocks have a gradient.
void T5::add_stack(ParameterStore& store, Stack& s) {
  s.bias.unit = store.add_unit(s.name + ".relative_attention_bias", parameters_of(s.bias));
  BlockStack<Block>& stack = s.blocks;
  stack.units.clear();
  stack.first = stack.blocks.size();
  for (std::size_t i = stack.blocks.size(); i-- > 0;)
    if (any_trained(stack.blocks[i])) stack.first = i;
  const bool decoder = s.blocks.blocks[0].cross.has_value();
  if (any_trained(shared_) || any_trained(s.bias) || (decoder && encoder_gradient_)) stack.first = 0;
  for (std::size_t i = 0; i < stack.blocks.size(); ++i)
    stack.units.push_back(store.add_unit(s.unit_of(i), parameters_of(stack.blocks[i])));
}

void T5::add_units(ParameterStore& store) {
  encoder_gradient_ = any_trained(shared_) || encoder_.trained() || any_trained(encoder_norm_);
  shared_unit_ = store.add_unit("shared", parameters_of(shared_));
  add_stack(store, encoder_);
  encoder_norm_unit_ = store.add_unit("encoder.final_layer_norm", parameters_of(encoder_norm_));
  add_stack(store, decoder_);
  head_unit_ = store.add_unit("lm_head", parameters_of(head_));
}

T5::Inputs T5::upload(Ctx& c, ParameterStore& store, const Batch& b, bool gradient) {
  Inputs in{ft::upload(c, b.input_ids),
            ft::upload(c, b.source_ids),
            {ft::upload(c, b.target_rows), ft::upload(c, b.targets)},
            {},
            {}};
  in.encoder.starts = b.source_starts;
  in.encoder.bias = encoder_.bias.forward(c, store, longest_of(b.source_starts), gradient);
  in.decoder.starts = b.starts;
  in.decoder.bias = decoder_.bias.forward(c, store, longest_of(b.starts), gradient);
  in.decoder.memory_starts = b.source_starts;
  return in;
}

Tensor T5::embed(Ctx& c, ParameterStore& store, Tensor ids, const Stack& s) {
  Use use(store, shared_unit_, false);
  Tensor x = c.save(ids.numel(), config_.d_model);
  shared_.forward(c, x, ids);
  dropout_.apply(c, x, s.name + ".embed_tokens");
  return x;
}

void T5::embed_backward(Ctx& c, ParameterStore& store, Tensor d, Tensor ids, const Stack& s) {
  Use use(store, shared_unit_, true);
  dropout_.apply(c, d, s.name + ".embed_tokens");
  shared_.backward(c, d, ids);
  store.reduce(shared_unit_, &s == &encoder_);  // the encoder comes last
}

T5::Memory T5::finish(Ctx& c, ParameterStore& store, Tensor x) {
  Memory m{x, c.save(x.rows(), x.cols()), c.saved.take({x.rows()}, DType::f32)};
  Use use(store, encoder_norm_unit_, false);
  encoder_norm_.forward(c, m.states, m.rstd, x);
  dropout_.apply(c, m.states, encoder_norm_.weight.name);
  return m;
}

Tensor T5::hidden(Ctx& c, ParameterStore& store, Inputs& in) {
  Tensor x = encoder_.blocks.evaluate(c, store, embed(c, store, in.source_ids, encoder_), in.encoder);
  in.decoder.memory = finish(c, store, x).states;
  return decoder_.blocks.evaluate(c, store, embed(c, store, in.ids, decoder_), in.decoder);
}

void T5::forward(Ctx& c, ParameterStore& store, const Batch& b, Tensor loss) {
  Scope all(c.saved);
  Inputs in = upload(c, store, b, false);
  Tensor x = hidden(c, store, in);
  HeadUse use(*this, store, false);
  head_.forward(c, loss, x, in.targets, 0);
}

void T5::logits(Ctx& c, ParameterStore& store, const Batch& b, Tensor y) {
  Scope all(c.saved);
  Inputs in = upload(c, store, b, false);
  Tensor x = hidden(c, store, in);
  HeadUse use(*this, store, false);
  head_.logits(c, y, x, in.targets.rows);
}

// From the gradient of the memory down.
void T5::encoder_backward(Ctx& c, ParameterStore& store, const Inputs& in, const Memory& m) {
  Scope scratch(c.scratch);
  Tensor d = c.temporary(m.x.rows(), m.x.cols()), dn = c.temporary(m.x.rows(), m.x.cols());
  c.ops.cast(dn, in.decoder.d_memory);
  dropout_.apply(c, dn, encoder_norm_.weight.name);
  c.ops.fill(d, 0);
  {
    Use use(store, encoder_norm_unit_, true);
    encoder_norm_.backward(c, d, dn, m.x, m.rstd);
    store.reduce(encoder_norm_unit_, true);
  }
  const bool embed_grad = store.trains(shared_unit_);
  encoder_.blocks.backward(c, store, d, in.encoder, embed_grad);
  encoder_.bias.backward(c, store, in.encoder.bias);
  if (embed_grad) embed_backward(c, store, d, in.source_ids, encoder_);
}

void T5::forward_backward(Ctx& c, ParameterStore& store, const Batch& b, Tensor loss, float scale,
                          float smoothing) {
  Scope all(c.saved), scratch(c.scratch);
  Inputs in = upload(c, store, b, true);
  const Memory memory = finish(
      c, store, encoder_.blocks.forward(c, store, embed(c, store, in.source_ids, encoder_), in.encoder));
  in.decoder.memory = memory.states;
  if (encoder_gradient_) {
    in.decoder.d_memory = c.scratch.take({memory.x.rows(), memory.x.cols()}, DType::f32);
    c.ops.fill(in.decoder.d_memory, 0);
  }
  Tensor x = decoder_.blocks.forward(c, store, embed(c, store, in.ids, decoder_), in.decoder);
  Tensor d = c.temporary(x.rows(), x.cols());
  {
    HeadUse use(*this, store, true);
    head_.forward_backward(c, loss, d, x, in.targets, scale, smoothing);
    store.reduce(head_unit_, true);
    if (use.table) store.reduce(shared_unit_, false);
  }
  const bool embed_grad = store.trains(shared_unit_);
  decoder_.blocks.backward(c, store, d, in.decoder, embed_grad);
  decoder_.bias.backward(c, store, in.decoder.bias);
  if (embed_grad) embed_backward(c, store, d, in.ids, decoder_);
  if (encoder_gradient_) encoder_backward(c, store, in, memory);
}

}  // namespace ft::t5
