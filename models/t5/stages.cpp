// T5 in a pipeline: the stages split the encoder's blocks, followed by the decoder's. A stage sends three
// things to the next: the states of the sources, which all blocks of the decoder read; the states of the
// targets, which the first stage embeds; and a stack's bias if the stack is cut there. Their gradients come
// back.
#include "models/t5/model.h"

namespace ft::t5 {

void T5::keep_stages(const std::vector<Stage>& chunks) {
  if (chunks.size() > 1)
    throw UserError(Exit::config, str("distributed.virtual_pipeline_parallel_size is ", chunks.size(),
                                      ": an encoder-decoder's blocks cannot be dealt out in several chunks "
                                      "for each rank yet; leave it out"));
  stage_ = chunks[0];
  const std::int64_t encoders = std::ssize(encoder_.layers);
  for (Stage* s : {&encoder_.blocks.stage, &decoder_.blocks.stage}) *s = stage_;
  for (std::int64_t Stage::*end : {&Stage::begin, &Stage::end}) {
    encoder_.blocks.stage.*end = std::min(stage_.*end, encoders);
    decoder_.blocks.stage.*end = std::max(stage_.*end, encoders) - encoders;
  }
  vocabulary_.keep_stages(chunks);
}

T5::Wanted T5::wanted_below(std::int64_t block) {
  const bool embedding = any_trained(vocabulary_.embedding);
  const std::int64_t decoders = block - std::ssize(encoder_.layers);
  if (block == 0) return {embedding, embedding};
  if (decoders < 0) return {embedding || encoder_.trained(block), embedding};
  return {encoder_gradient_, decoders == 0 ? embedding : encoder_gradient_ || decoder_.trained(decoders)};
}

// Returns the bias of the stack that is cut at `block`; empty if none is.
RelativeBias::Pass T5::bias_between(const Inputs& in, std::int64_t block) const {
  const std::int64_t encoders = std::ssize(encoder_.layers);
  if (block == encoders) return {};
  return (block < encoders ? in.encoder : in.decoder).bias;
}

States T5::states_between(const Flight& f, std::int64_t block) const {
  return {f.source_states, f.states, bias_between(f.in, block).bias};
}

States T5::take_states(Ctx& c, Flight& f) const {
  const auto room = [&](const Tensor& ids) {
    return ids ? c.save(ids.numel(), vocabulary_.embedding.width()) : Tensor{};
  };
  f.source_states = room(f.in.source_ids);
  f.states = room(f.in.ids);
  return states_between(f, stage_.begin);
}

void T5::receive(Ctx& c, Flight& f) const {
  if (!stage_.first()) exchange_states(c, {}, 0, take_states(c, f), rank_below(*c.pipeline()), "states");
}

void T5::send(Ctx& c, const Flight& f) const {
  if (stage_.last()) return;
  exchange_states(c, states_between(f, stage_.end), rank_above(*c.pipeline()), {}, 0, "states");
}

States T5::take_in(Ctx& c, Batch b, int, std::size_t slot) {
  if (flights_.size() <= slot) flights_.resize(slot + 1);
  Flight& f = flights_[slot];
  f = {};
  f.batch = std::move(b);
  f.in = upload_part(c, f.batch);
  return stage_.first() ? States{} : take_states(c, f);
}

States T5::forward_stage(Ctx& c, ParameterStore& store, std::size_t slot) {
  Flight& f = flights_[slot];
  c.begin(Phase::forward);
  encoder_.blocks.turn_to(slot);
  decoder_.blocks.turn_to(slot);
  run_encoder(c, store, f, true);
  run_decoder(c, store, f, true);
  return stage_.last() ? States{} : states_between(f, stage_.end);
}

States T5::take_gradients(Ctx& c, std::size_t slot) {
  Flight& f = flights_[slot];
  const std::int64_t rows = f.in.source_ids.numel(), C = vocabulary_.embedding.width();
  const std::int64_t decoders = stage_.end - std::ssize(encoder_.layers);
  if (decoders < 0) encoder_.bias.begin_backward(c, f.in.encoder.bias);
  if (decoders > 0) decoder_.bias.begin_backward(c, f.in.decoder.bias);
  if (here_.sources)
    f.d_source_states = decoders < 0 ? c.temporary(rows, C) : c.scratch.take({rows, C}, DType::f32);
  if (here_.targets) f.d_states = c.temporary(f.in.ids.numel(), C);
  return {f.d_source_states, f.d_states, bias_between(f.in, stage_.end).dbias};
}

States T5::backward_stage(Ctx& c, ParameterStore& store, std::size_t slot, const Loss& loss) {
  Flight& f = flights_[slot];
  encoder_.blocks.turn_to(slot);
  decoder_.blocks.turn_to(slot);
  begin_gradients(c, f);
  if (stage_.last()) {
    c.numbers = f.in.first_target;
    f.d_states = vocabulary_.forward_backward(c, store, f.states, f.in.targets, loss);
  } else {
    c.begin(Phase::backward);
  }
  backward(c, store, f);
  if (stage_.first()) return {};
  return {below_.sources ? f.d_source_states : Tensor{}, below_.targets ? f.d_states : Tensor{},
          bias_between(f.in, stage_.begin).dbias};
}

}  // namespace ft::t5
