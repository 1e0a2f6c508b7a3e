#include "models/t5/model.h"

#include <algorithm>
#include <cmath>

#include "engine/parallel/sequence_part.h"

namespace ft::t5 {

bool T5::Stack::trained(std::int64_t first) {
  bool any = any_trained(bias);
  for (std::int64_t i = 0; i < first; ++i) any |= any_trained(layers[static_cast<std::size_t>(i)]);
  return any;
}

void T5::Stack::visit(Visitor& v) {
  v.unit(name + ".relative_attention_bias");
  bias.visit(v);
  blocks.visit(v);
}

void T5::Stack::cut(TensorRank t) {
  ft::cut(bias.weight, 1, t);
  for (Block& b : blocks.blocks) b.cut(t);
}

void T5::Stack::add_units(ParameterStore& store, bool all) {
  if (begins()) bias.unit = store.add_unit(name + ".relative_attention_bias", parameters_of(bias));
  blocks.add_units(store, all || any_trained(bias));
}

Tensor T5::Stack::run(Ctx& c, ParameterStore& store, Tensor x, const Side& side,
                      std::span<const std::int32_t> kept_starts, bool keeps) {
  if (empty()) return x;
  if (begins()) bias.forward(c, store, side.bias);
  return keeps ? blocks.forward(c, store, x, side, kept_starts) : blocks.evaluate(c, store, x, side);
}

void T5::Stack::backward(Ctx& c, ParameterStore& store, Tensor d, const Side& side, bool input_grad) {
  if (empty()) return;
  blocks.backward(c, store, d, side, input_grad);
  if (begins()) bias.backward(c, store, side.bias);
}

T5::Stack T5::make_stack(bool decoder, DType dtype) const {
  Stack s;
  s.name = decoder ? "decoder" : "encoder";
  s.blocks.name = s.name + ".block";
  s.bias.weight = {.name = s.name + ".block.0.layer.0.SelfAttention.relative_attention_bias.weight",
                   .shape = {config_.buckets, config_.num_heads},
                   .dtype = dtype,
                   .decays = false,
                   .embedding = true,
                   .deviation = config_.initializer_factor / std::sqrt(static_cast<double>(config_.d_model))};
  s.bias.bidirectional = !decoder;
  s.bias.max_distance = config_.max_distance;
  const std::int64_t layers = decoder ? config_.num_decoder_layers : config_.num_layers;
  for (std::int64_t i = 0; i < layers; ++i) s.layers.push_back(make_block(config_, decoder, i, dtype));
  s.blocks.blocks = s.layers;
  return s;
}

T5::T5(Config config, DType dtype) : config_(std::move(config)), dropout_{config_.dropout_rate} {
  const std::int64_t V = config_.vocab_size, C = config_.d_model;
  vocabulary_.embedding.weight = {.name = "shared.weight",
                                  .shape = {V, C},
                                  .dtype = dtype,
                                  .embedding = true,
                                  .deviation = config_.initializer_factor,
                                  .stored_as = config_.shared_name};
  encoder_ = make_stack(false, dtype);
  encoder_norm_ = make_rms_norm("encoder.final_layer_norm", C, config_.layer_norm_epsilon, dtype);
  decoder_ = make_stack(true, dtype);
  Head& head = vocabulary_.head;
  head.norm = make_rms_norm("decoder.final_layer_norm", C, config_.layer_norm_epsilon, dtype);
  head.lm_head = make_linear("lm_head", C, V, false, dtype);
  static_cast<DenseWeight&>(*head.lm_head.weight).parameter.deviation = config_.initializer_factor;
  if (!config_.own_head) vocabulary_.tie();
  if (config_.scale_outputs) head.scale = config_.output_scale();
  head.dropout = dropout_;
}

void T5::cut_all(TensorRank t) {
  if (t.shards_rows)
    throw UserError(Exit::config,
                    "distributed.partition_activations: ranks cannot share out rows of T5 yet; leave it out");
  encoder_.cut(t);
  decoder_.cut(t);
  vocabulary_.cut(t);
}

void T5::visit(Visitor& v) {
  vocabulary_.visit_embedding(v);
  encoder_.visit(v);
  v.unit("encoder.final_layer_norm");
  encoder_norm_.visit(v);
  decoder_.visit(v);
  vocabulary_.visit_head(v);
}

// Adds the units to the store, and sets where gradients are needed. The encoder's states need one if the
// embedding or anything in the encoder is trained, because the decoder's cross-attention reads them.
void T5::add_units(ParameterStore& store) {
  encoder_gradient_ = any_trained(vocabulary_.embedding) || encoder_.trained(std::ssize(encoder_.layers)) ||
                      any_trained(encoder_norm_);
  below_ = wanted_below(stage_.begin);
  here_ = wanted_below(stage_.end);
  vocabulary_.add_embedding(store);
  encoder_.add_units(store, below_.sources);
  if (encoder_.ends())
    encoder_norm_unit_ = store.add_unit("encoder.final_layer_norm", parameters_of(encoder_norm_));
  decoder_.add_units(store, encoder_gradient_ || below_.targets);
  vocabulary_.add_head(store);
}

void T5::set_sparse_attention(const SparseAttentionConfig& config) {
  sparse_ = SparseAttention(config, AttentionDirection::bidirectional, config_.num_heads);
}

void T5::drop_tokens(const std::vector<std::int64_t>& blocks, bool encoder, std::int64_t all) {
  (encoder ? encoder_ : decoder_).blocks.drop_tokens(blocks, all);
}

void T5::set_recompute(std::int64_t n) {
  const std::int64_t encoders = encoder_.blocks.size(), some = std::max<std::int64_t>(n, 0),
                     whole = std::clamp<std::int64_t>(-n, 0, blocks());
  // + 1: the encoder's last block runs again completely, because the decoder runs before its backward.
  encoder_.blocks.recomputed = some < encoders ? some : encoders + 1;
  decoder_.blocks.recomputed = std::min(some, blocks()) - encoders;
  decoder_.blocks.whole = std::min(whole, decoder_.blocks.size());
  encoder_.blocks.whole = whole - decoder_.blocks.whole;
  encoder_.blocks.segment = decoder_.blocks.segment = segment_of(n);
}

void T5::share_rows(std::int64_t ranks, SequenceSharing by) {
  if (by == SequenceSharing::ring) refuse_ring("which has no T5 yet; set it to ulysses");
  for (const Stack* s : {&encoder_, &decoder_})
    for (const Block& b : s->blocks.blocks) b.self.layer.share_rows(ranks);
}

T5::Inputs T5::upload_part(Ctx& c, const Batch& whole) {
  Communicator* const ranks = c.grid ? c.grid->sequence() : nullptr;
  if (!ranks) return upload(c, whole, whole);
  const RowShare share{ranks->rank(), ranks->size()};
  Batch part = part_of(whole, share);
  Inputs in = upload(c, part, whole);
  in.encoder.parts = in.decoder.parts = ranks;
  in.source_rows = in.decoder.memory_rows = share.numbers(std::ssize(part.source_ids));
  in.rows = share.numbers(part.tokens());
  const std::vector<std::int32_t>& targets = whole.target_rows;
  in.first_target.first = std::lower_bound(targets.begin(), targets.end(), in.rows.first) - targets.begin();
  in.part = std::move(part);
  return in;
}

T5::Inputs T5::upload(Ctx& c, const Batch& b, const Batch& whole) {
  Inputs in{vocabulary_.embedding.upload(c, b.input_ids),
            vocabulary_.embedding.upload(c, b.source_ids),
            {ft::upload(c, b.target_rows), ft::upload(c, b.targets)},
            {},
            {},
            b.kept_starts,
            b.kept_source_starts};
  in.encoder.starts = b.source_starts;
  in.decoder.starts = b.starts;
  in.decoder.memory_starts = b.source_starts;
  if (!encoder_.empty()) {
    in.encoder.bias = encoder_.bias.take(c, longest_of(whole.source_starts));
    in.encoder.blocks = sparse_.upload(c, longest_of(whole.source_starts));
  }
  if (!decoder_.empty()) in.decoder.bias = decoder_.bias.take(c, longest_of(whole.starts));
  return in;
}

Tensor T5::embed(Ctx& c, ParameterStore& store, Tensor ids, const Stack& s) {
  Tensor x = vocabulary_.embed(c, store, ids);
  dropout_.apply(c, x, s.name + ".embed_tokens");
  return x;
}

void T5::embed_backward(Ctx& c, ParameterStore& store, Tensor d, Tensor ids, const Stack& s) {
  dropout_.apply(c, d, s.name + ".embed_tokens");
  vocabulary_.embed_backward(c, store, d, ids, &s == &encoder_);  // the encoder's gradient comes last
}

T5::Memory T5::finish(Ctx& c, ParameterStore& store, Tensor x) {
  Memory m{x, c.save(x.rows(), x.cols()), encoder_norm_.take_statistics(c.saved, x.rows())};
  Use use(store, encoder_norm_unit_, false);
  encoder_norm_.forward(c, m.states, m.statistics, x);
  dropout_.apply(c, m.states, encoder_norm_.name());
  return m;
}

void T5::run_encoder(Ctx& c, ParameterStore& store, Flight& f, bool keeps) {
  const Inputs& in = f.in;
  c.numbers = in.source_rows;
  if (stage_.first()) f.source_states = embed(c, store, in.source_ids, encoder_);
  f.source_states = encoder_.run(c, store, f.source_states, in.encoder, in.kept_source_starts, keeps);
  if (!encoder_.ends()) return;
  f.memory = finish(c, store, f.source_states);
  f.source_states = f.memory.states;
}

void T5::run_decoder(Ctx& c, ParameterStore& store, Flight& f, bool keeps) {
  Inputs& in = f.in;
  c.numbers = in.rows;
  in.decoder.memory = f.source_states;
  if (stage_.first()) f.states = embed(c, store, in.ids, decoder_);
  f.states = decoder_.run(c, store, f.states, in.decoder, in.kept_starts, keeps);
}

Tensor T5::hidden(Ctx& c, ParameterStore& store, Flight& f) {
  receive(c, f);
  run_encoder(c, store, f, false);
  run_decoder(c, store, f, false);
  send(c, f);
  return f.states;
}

void T5::forward(Ctx& c, ParameterStore& store, const Batch& b, const Loss& loss) {
  Scope all(c.saved);
  Flight f{upload_part(c, b)};
  const Tensor x = hidden(c, store, f);
  if (stage_.last()) vocabulary_.forward(c, store, x, f.in.targets, loss);
}

std::unique_ptr<TargetLogits> T5::target_logits(Ctx& c, ParameterStore& store, const Batch& b) {
  Flight f{upload(c, b, b)};
  const Tensor x = hidden(c, store, f);
  return vocabulary_.target_logits(c, store, x, f.in.targets.rows);
}

void T5::logits(Ctx& c, ParameterStore& store, const Batch& b, Tensor y) {
  Scope all(c.saved);
  Flight f{upload(c, b, b)};
  const Tensor x = hidden(c, store, f);
  vocabulary_.logits(c, store, y, x, f.in.targets.rows);
}

Tensor T5::memory_backward(Ctx& c, ParameterStore& store, const Flight& f) {
  const Tensor& x = f.memory.x;
  Tensor d = c.temporary(x.rows(), x.cols());
  Scope scratch(c.scratch);
  Tensor dn = c.temporary(x.rows(), x.cols());
  if (c.tensor()) add_up(c, f.d_source_states, "encoder.final_layer_norm");
  c.ops.run(op::Cast{dn, f.d_source_states});
  dropout_.apply(c, dn, encoder_norm_.name());
  c.ops.run(op::Fill{d, 0});
  Use use(store, encoder_norm_unit_, true);
  encoder_norm_.backward(c, d, dn, x, f.memory.statistics);
  store.reduce(encoder_norm_unit_, true);
  return d;
}

void T5::begin_gradients(Ctx& c, Flight& f) const {
  if (encoder_.ends()) encoder_.bias.begin_backward(c, f.in.encoder.bias);
  if (decoder_.ends()) decoder_.bias.begin_backward(c, f.in.decoder.bias);
  if (decoder_.ends() && encoder_gradient_) {
    f.d_source_states = c.scratch.take({f.in.source_ids.numel(), vocabulary_.embedding.width()}, DType::f32);
    c.ops.run(op::Fill{f.d_source_states, 0});
  }
  f.in.decoder.d_memory = f.d_source_states;
}

void T5::backward(Ctx& c, ParameterStore& store, Flight& f) {
  const bool embeds = stage_.first() && below_.targets;
  c.numbers = f.in.rows;
  if (f.d_states) decoder_.backward(c, store, f.d_states, f.in.decoder, below_.targets);
  if (embeds) embed_backward(c, store, f.d_states, f.in.ids, decoder_);
  c.numbers = f.in.source_rows;
  if (!f.d_source_states) return;
  if (encoder_.ends()) f.d_source_states = memory_backward(c, store, f);
  encoder_.backward(c, store, f.d_source_states, f.in.encoder, below_.sources);
  if (embeds) embed_backward(c, store, f.d_source_states, f.in.source_ids, encoder_);
}

void T5::forward_backward(Ctx& c, ParameterStore& store, const Batch& b, const Loss& loss) {
  Scope all(c.saved), scratch(c.scratch);
  c.begin(Phase::forward);
  Flight f{upload_part(c, b)};
  begin_gradients(c, f);
  run_encoder(c, store, f, true);
  run_decoder(c, store, f, true);
  c.numbers = f.in.first_target;
  f.d_states = vocabulary_.forward_backward(c, store, f.states, f.in.targets, loss);
  backward(c, store, f);
}

}  // namespace ft::t5
