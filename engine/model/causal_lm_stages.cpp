// A decoder-only model in a pipeline: each rank has one or several chunks of the blocks.
#include "engine/model/causal_lm.h"

namespace ft {

void CausalLm::keep_stages(const std::vector<Stage>& chunks) {
  if (balance_.coefficient != 0)
    throw UserError(Exit::config,
                    str("distributed.pipeline_parallel_size is ", chunks[0].size / std::ssize(chunks),
                        ": the loss of uneven experts needs all layers; set "
                        "output_router_logits to false in config.json"));
  if (per_layer_ || lends_keys())
    throw UserError(Exit::config,
                    str("distributed.pipeline_parallel_size is ", chunks[0].size / std::ssize(chunks),
                        ": layers of this model share keys or have inputs of their own, which ft does not "
                        "send to other stages yet; leave it out"));
  chunks_.resize(chunks.size());
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    chunks_[i].blocks = blocks_;
    chunks_[i].name = chunks_[0].name;
    chunks_[i].stage = chunks[i];
  }
  vocabulary_.keep_stages(chunks);
}

bool CausalLm::trains_from(const BlockStack<DecoderBlock>& chunk) {
  return chunk.first < static_cast<std::size_t>(chunk.size());
}

States CausalLm::take_in(Ctx& c, Batch b, int chunk, std::size_t slot) {
  if (flights_.size() <= slot) flights_.resize(slot + 1);
  Flight& f = flights_[slot];
  f.chunk = static_cast<std::size_t>(chunk);
  f.batch = std::move(b);
  f.in = upload_part(c, f.batch);
  const Stage& stage = chunks_[f.chunk].stage;
  f.x = stage.first() ? Tensor{} : room_for_states(c, f.in.ids);
  f.y = stage.last() || chunks_.size() == 1 ? Tensor{} : room_for_states(c, f.in.ids);
  return {f.x};
}

States CausalLm::forward_stage(Ctx& c, ParameterStore& store, std::size_t slot) {
  Flight& f = flights_[slot];
  c.begin(Phase::forward);
  BlockStack<DecoderBlock>& chunk = chunks_[f.chunk];
  if (chunk.stage.first()) f.x = embed(c, store, f.in, longest_of(f.batch.starts));
  chunk.turn_to(slot);
  f.y = chunk.forward(c, store, f.x, f.in.side, {}, f.y);
  return {chunk.stage.last() ? Tensor{} : f.y};
}

States CausalLm::take_gradients(Ctx& c, std::size_t slot) {
  Flight& f = flights_[slot];
  const BlockStack<DecoderBlock>& chunk = chunks_[f.chunk];
  if (!trains_from(chunk)) return {};
  return {f.d = chunks_.size() > 1 ? f.y : c.temporary(f.y.rows(), f.y.cols())};
}

States CausalLm::backward_stage(Ctx& c, ParameterStore& store, std::size_t slot, const Loss& loss) {
  Flight& f = flights_[slot];
  BlockStack<DecoderBlock>& chunk = chunks_[f.chunk];
  chunk.turn_to(slot);
  if (!chunk.stage.last())
    c.begin(Phase::backward);
  else
    f.d = vocabulary_.forward_backward(c, store, f.y, f.in.targets, loss);
  if (!trains_from(chunk)) return {};
  const bool below = trains_below_[f.chunk];
  chunk.backward(c, store, f.d, f.in.side, below);
  if (below && !chunk.stage.first()) return {f.d};
  if (below) vocabulary_.embed_backward(c, store, f.d, f.in.ids, true, f.in.side.positions);
  return {};
}

}  // namespace ft
