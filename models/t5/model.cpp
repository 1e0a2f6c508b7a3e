#include "models/t5/model.h"

#include <algorithm>
#include <cmath>

namespace ft::t5 {
bool T5::Stack::trained() {
  bool any = any_trained(bias);
  for (Block& b : blocks.blocks) any |= any_trained(b);
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
  bias.unit = store.add_unit(name + ".relative_attention_bias", parameters_of(bias));
  blocks.add_units(store, all || any_trained(bias));
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

// Where the embedding is trained, or something of the encoder, which the decoder's cross-attention reads, the
// blocks above have a gradient.
void T5::add_units(ParameterStore& store) {
  const bool embedding = any_trained(vocabulary_.embedding);
  encoder_gradient_ = embedding || encoder_.trained() || any_trained(encoder_norm_);
  vocabulary_.add_embedding(store);
  encoder_.add_units(store, embedding);
  encoder_norm_unit_ = store.add_unit("encoder.final_layer_norm", parameters_of(encoder_norm_));
  decoder_.add_units(store, encoder_gradient_);
  vocabulary_.add_head(store);
}

void T5::share_rows(std::int64_t ranks, SequenceSharing by) {
  if (by == SequenceSharing::ring)
    throw UserError(Exit::config,
                    "distributed.sequence_parallel_type is ring, which has no T5 yet; set it to ulysses");
  for (const Stack* s : {&encoder_, &decoder_})
    for (const Block& b : s->blocks.blocks) b.self.layer.share_rows(ranks);
}

T5::Inputs T5::upload_part(Ctx& c, ParameterStore& store, const Batch& whole, bool gradient) {
  Communicator* const ranks = c.grid ? c.grid->sequence() : nullptr;
  if (!ranks) return upload(c, store, whole, whole, gradient);
  const RowShare share{ranks->rank(), ranks->size()};
  Batch part = part_of(whole, share);
  Inputs in = upload(c, store, part, whole, gradient);
  in.encoder.parts = in.decoder.parts = ranks;
  in.source_rows = in.decoder.memory_rows = share.numbers(std::ssize(part.source_ids));
  in.rows = share.numbers(part.tokens());
  const std::vector<std::int32_t>& targets = whole.target_rows;
  in.first_target.first = std::lower_bound(targets.begin(), targets.end(), in.rows.first) - targets.begin();
  in.part = std::move(part);
  return in;
}

T5::Inputs T5::upload(Ctx& c, ParameterStore& store, const Batch& b, const Batch& whole, bool gradient) {
  Inputs in{vocabulary_.embedding.upload(c, b.input_ids),
            vocabulary_.embedding.upload(c, b.source_ids),
            {ft::upload(c, b.target_rows), ft::upload(c, b.targets)},
            {},
            {}};
  in.encoder.starts = b.source_starts;
  in.encoder.bias = encoder_.bias.forward(c, store, longest_of(whole.source_starts), gradient);
  in.encoder.blocks = sparse_.upload(c, longest_of(whole.source_starts));
  in.decoder.starts = b.starts;
  in.decoder.bias = decoder_.bias.forward(c, store, longest_of(whole.starts), gradient);
  in.decoder.memory_starts = b.source_starts;
  return in;
}

Tensor T5::embed(Ctx& c, ParameterStore& store, Tensor ids, const Stack& s) {
  Tensor x = vocabulary_.embed(c, store, ids);
  dropout_.apply(c, x, s.name + ".embed_tokens");
  return x;
}

void T5::embed_backward(Ctx& c, ParameterStore& store, Tensor d, Tensor ids, const Stack& s) {
  dropout_.apply(c, d, s.name + ".embed_tokens");
  vocabulary_.embed_backward(c, store, d, ids, &s == &encoder_);  // the encoder comes last
}

T5::Memory T5::finish(Ctx& c, ParameterStore& store, Tensor x) {
  Memory m{x, c.save(x.rows(), x.cols()), encoder_norm_.take_statistics(c.saved, x.rows())};
  Use use(store, encoder_norm_unit_, false);
  encoder_norm_.forward(c, m.states, m.statistics, x);
  dropout_.apply(c, m.states, encoder_norm_.name());
  return m;
}

Tensor T5::hidden(Ctx& c, ParameterStore& store, Inputs& in) {
  Tensor x = encoder_.blocks.evaluate(c, store, embed(c, store, in.source_ids, encoder_), in.encoder);
  in.decoder.memory = finish(c, store, x).states;
  return decoder_.blocks.evaluate(c, store, embed(c, store, in.ids, decoder_), in.decoder);
}

void T5::forward(Ctx& c, ParameterStore& store, const Batch& b, Tensor loss) {
  Scope all(c.saved);
  Inputs in = upload_part(c, store, b, false);
  Tensor x = hidden(c, store, in);
  vocabulary_.forward(c, store, loss, x, in.targets);
}

void T5::forward_rows(Ctx& c, ParameterStore& store, const Batch& b, RowLoss& loss) {
  Scope all(c.saved);
  Inputs in = upload(c, store, b, b, false);
  Tensor x = hidden(c, store, in);
  vocabulary_.forward(c, store, loss, x, in.targets);
}

void T5::forward_logits(Ctx& c, ParameterStore& store, const Batch& b, LogitLoss& of, Tensor loss) {
  Scope all(c.saved);
  Inputs in = upload(c, store, b, b, false);
  Tensor x = hidden(c, store, in);
  vocabulary_.forward(c, store, of, loss, x, in.targets);
}

std::unique_ptr<TargetLogits> T5::target_logits(Ctx& c, ParameterStore& store, const Batch& b) {
  Inputs in = upload(c, store, b, b, false);
  Tensor x = hidden(c, store, in);
  return vocabulary_.target_logits(c, store, x, in.targets.rows);
}

void T5::logits(Ctx& c, ParameterStore& store, const Batch& b, Tensor y) {
  Scope all(c.saved);
  Inputs in = upload(c, store, b, b, false);
  Tensor x = hidden(c, store, in);
  vocabulary_.logits(c, store, y, x, in.targets.rows);
}

// From the gradient of the memory down.
void T5::encoder_backward(Ctx& c, ParameterStore& store, const Inputs& in, const Memory& m) {
  Scope scratch(c.scratch);
  Tensor d = c.temporary(m.x.rows(), m.x.cols()), dn = c.temporary(m.x.rows(), m.x.cols());
  if (c.tensor()) add_up(c, in.decoder.d_memory, "encoder.final_layer_norm");
  c.ops.run(op::Cast{dn, in.decoder.d_memory});
  dropout_.apply(c, dn, encoder_norm_.name());
  c.ops.run(op::Fill{d, 0});
  {
    Use use(store, encoder_norm_unit_, true);
    encoder_norm_.backward(c, d, dn, m.x, m.statistics);
    store.reduce(encoder_norm_unit_, true);
  }
  const bool embed_grad = store.trains(vocabulary_.embedding_unit());
  encoder_.blocks.backward(c, store, d, in.encoder, embed_grad);
  encoder_.bias.backward(c, store, in.encoder.bias);
  if (embed_grad) embed_backward(c, store, d, in.source_ids, encoder_);
}

template <class HeadPass>
void T5::train(Ctx& c, ParameterStore& store, const Batch& b, HeadPass head) {
  Scope all(c.saved), scratch(c.scratch);
  c.begin(Phase::forward);
  Inputs in = upload_part(c, store, b, true);
  c.numbers = in.source_rows;
  const Memory memory = finish(c, store,
                               encoder_.blocks.forward(c, store, embed(c, store, in.source_ids, encoder_),
                                                       in.encoder, b.kept_source_starts));
  in.decoder.memory = memory.states;
  if (encoder_gradient_) {
    in.decoder.d_memory = c.scratch.take({memory.x.rows(), memory.x.cols()}, DType::f32);
    c.ops.run(op::Fill{in.decoder.d_memory, 0});
  }
  c.numbers = in.rows;
  Tensor x = decoder_.blocks.forward(c, store, embed(c, store, in.ids, decoder_), in.decoder, b.kept_starts);
  c.numbers = in.first_target;
  Tensor d = head(x, in.targets);
  c.numbers = in.rows;
  const bool embed_grad = store.trains(vocabulary_.embedding_unit());
  decoder_.blocks.backward(c, store, d, in.decoder, embed_grad);
  decoder_.bias.backward(c, store, in.decoder.bias);
  if (embed_grad) embed_backward(c, store, d, in.ids, decoder_);
  c.numbers = in.source_rows;
  if (encoder_gradient_) encoder_backward(c, store, in, memory);
}

void T5::forward_backward(Ctx& c, ParameterStore& store, const Batch& b, Tensor loss, float scale,
                          float smoothing) {
  train(c, store, b, [&](Tensor x, const Targets& t) {
    return vocabulary_.forward_backward(c, store, loss, x, t, scale, smoothing);
  });
}

void T5::forward_backward_logits(Ctx& c, ParameterStore& store, const Batch& b, LogitLoss& of, Tensor loss,
                                 float scale) {
  train(c, store, b, [&](Tensor x, const Targets& t) {
    return vocabulary_.forward_backward(c, store, of, loss, x, t, scale);
  });
}

void T5::forward_backward_rows(Ctx& c, ParameterStore& store, const Batch& b, RowLoss& loss) {
  train(c, store, b,
        [&](Tensor x, const Targets& t) { return vocabulary_.forward_backward(c, store, loss, x, t); });
}

}  // namespace ft::t5
