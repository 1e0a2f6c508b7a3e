#include "engine/model/causal_lm.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/model/invocation.h"
#include "engine/ops/ops.h"
#include "engine/parallel/batch_part.h"
#include "engine/parallel/row_shards.h"
#include "engine/parallel/sequence_part.h"

namespace ft {

CausalLm::CausalLm(Parts parts)
    : positions_(std::move(parts.positions)),
      blocks_(std::move(parts.blocks)),
      heads_(parts.heads),
      balance_(parts.balance),
      per_layer_(std::move(parts.per_layer)),
      placeholders_(std::move(parts.placeholders)) {
  for (DecoderBlock& b : blocks_) b.check();
  vocabulary_.embedding = std::move(parts.embedding);
  vocabulary_.embedding.weight.embedding = true;
  if (auto& positions = vocabulary_.embedding.positions) positions->embedding = true;
  vocabulary_.head = std::move(parts.head);
  if (parts.tied) vocabulary_.tie();
  if (per_layer_) per_layer_->table.weight.embedding = true;
  chunks_[0].blocks = blocks_;
  chunks_[0].name = std::move(parts.stack);
}

void CausalLm::visit(Visitor& v) {
  vocabulary_.visit_embedding(v);
  if (per_layer_) per_layer_->visit(v);
  chunks_[0].visit(v);
  vocabulary_.visit_head(v);
}

void CausalLm::add_units(ParameterStore& store) {
  vocabulary_.add_embedding(store);
  if (per_layer_) per_layer_->add_unit(store);
  const bool inputs = any_trained(vocabulary_.embedding) || (per_layer_ && any_trained(*per_layer_));
  trains_below_.clear();
  for (BlockStack<DecoderBlock>& chunk : chunks_) {
    bool trains = inputs;
    for (std::int64_t i = 0; i < chunk.stage.begin; ++i)
      trains = trains || any_trained(blocks_[static_cast<std::size_t>(i)]);
    trains_below_.push_back(trains);
    chunk.add_units(store, trains);
  }
  vocabulary_.add_head(store);
}

void CausalLm::cut_all(TensorRank t) {
  if (per_layer_) refuse_cut("ranks cannot share inputs that each layer has of its own yet; leave it out");
  if (balance_.coefficient != 0 && t.shards_rows)
    throw UserError(
        Exit::config,
        "distributed.partition_activations: it fills up a micro-batch with tokens that the loss of "
        "uneven experts would count; set output_router_logits to false in config.json, or leave it "
        "out");
  for (DecoderBlock& b : blocks_) b.cut(t);
  vocabulary_.cut(t);
  heads_ /= t.size;
}

void CausalLm::share_rows(std::int64_t ranks, SequenceSharing by) {
  if (balance_.coefficient != 0)
    refuse_row_share(ranks,
                     "the loss of uneven experts needs all tokens of a micro-batch; set "
                     "output_router_logits to false in config.json");
  for (const DecoderBlock& b : blocks_) b.share_rows(ranks, by);
}

bool CausalLm::lends_keys() const {
  return std::ranges::any_of(blocks_, [](const DecoderBlock& b) { return b.attention.lends.has_value(); });
}

std::vector<LentKeys> CausalLm::take_loans(Ctx& c, std::int64_t rows, bool backward) const {
  std::vector<LentKeys> loans;
  for (const DecoderBlock& b : blocks_) {
    if (!b.attention.lends) continue;
    require(*b.attention.lends == loans.size(), "lenders are numbered in their order");
    const Shape shape{rows, b.attention.key_columns()};
    LentKeys& lent = loans.emplace_back(LentKeys{c.saved.take(shape, c.dtype), c.saved.take(shape, c.dtype)});
    if (!backward) continue;
    lent.dk = c.saved.take(shape, DType::f32);
    lent.dv = c.saved.take(shape, DType::f32);
  }
  return loans;
}

bool CausalLm::recurrent() const {
  return std::ranges::any_of(blocks_, [](const DecoderBlock& b) { return b.delta_net.has_value(); });
}

void CausalLm::set_sparse_attention(const SparseAttentionConfig& config) {
  if (config.mode != SparsityMode::dense && recurrent())
    throw UserError(Exit::config,
                    "model.sparse_attention: layers of this model have a state instead of "
                    "attention, which has no blocks to leave out; leave it out");
  sparse_ = SparseAttention(config, AttentionDirection::unidirectional, heads_);
}

void CausalLm::drop_tokens(const std::vector<std::int64_t>& blocks, bool encoder, std::int64_t all) {
  if (encoder)
    throw UserError(Exit::config, kRandomLtd + ".model_type: this model has no encoder; set decoder");
  if (recurrent())
    throw UserError(Exit::config, kRandomLtd +
                                      ": layers of this model pass a state from token to token, and cannot "
                                      "leave tokens out; leave it out");
  if (per_layer_ || lends_keys())
    throw UserError(Exit::config,
                    kRandomLtd +
                        ": layers of this model share keys or have inputs of their own, for all "
                        "tokens; leave it out");
  chunks_[0].drop_tokens(blocks, all);
}

bool CausalLm::set_embedding_noise(double alpha) {
  noise_ = alpha;
  return true;
}

std::int64_t CausalLm::blocks() const {
  std::int64_t n = 0;
  for (const BlockStack<DecoderBlock>& chunk : chunks_) n += chunk.size();
  return n;
}

void CausalLm::set_recompute(std::int64_t n) {
  for (BlockStack<DecoderBlock>& chunk : chunks_) {
    chunk.recomputed = chunk.whole = 0;
    chunk.segment = segment_of(n);
  }
  // Adds one block of each chunk in turn: the largest chunk decides the memory of a pass.
  for (std::int64_t left = std::min(std::abs(n), blocks()); left > 0;)
    for (BlockStack<DecoderBlock>& chunk : chunks_) {
      std::int64_t& some = n > 0 ? chunk.recomputed : chunk.whole;
      if (left > 0 && some < chunk.size()) ++some, --left;
    }
}

void CausalLm::forward(Ctx& c, ParameterStore& store, const Batch& b, const Loss& loss) {
  Scope all(c.saved);
  const Invocation active(c, b, invocation_);
  const Inputs in = upload_part(c, b);
  const Tensor x = hidden(c, store, in.ids, in.side);
  if (chunks_.back().stage.last()) vocabulary_.forward(c, store, x, in.targets, loss);
}

void CausalLm::logits(Ctx& c, ParameterStore& store, const Batch& b, Tensor y) {
  Scope all(c.saved);
  const Invocation active(c, b, invocation_);
  const Inputs in = upload(c, b);
  const Tensor x = hidden(c, store, in.ids, in.side);
  vocabulary_.logits(c, store, y, x, in.targets.rows);
}

std::unique_ptr<TargetLogits> CausalLm::target_logits(Ctx& c, ParameterStore& store, const Batch& b) {
  const Invocation active(c, b, invocation_);
  const Inputs in = upload(c, b);
  const Tensor x = hidden(c, store, in.ids, in.side);
  return vocabulary_.target_logits(c, store, x, in.targets.rows);
}

void CausalLm::forward_backward(Ctx& c, ParameterStore& store, const Batch& b, const Loss& loss) {
  Scope all(c.saved), scratch(c.scratch);
  const Invocation active(c, b, invocation_);
  store.expect(step_units(store));
  c.begin(Phase::forward);
  const ShardedStream sharded(c);
  Inputs in = upload_part(c, b);
  RouterStatistics routers;
  const auto* const balanced = balance_.coefficient != 0 ? std::get_if<CrossEntropy>(&loss) : nullptr;
  if (balanced) {
    routers = balance_.take(c);
    in.side.routers = &routers;
  }
  const std::vector<LentKeys> loans = take_loans(c, in.side.positions.numel(), true);
  in.side.lent = loans;
  BlockStack<DecoderBlock>& stack = chunks_[0];
  const Tensor embedded = embed(c, store, in, longest_of(b.starts));
  const bool embedding_grad = store.layout().trains(vocabulary_.embedding_unit());
  const PerLayerInputs::Saved inputs = begin_inputs(c, store, embedded, in, embedding_grad);
  const Tensor x = stack.forward(c, store, embedded, in.side, b.kept_starts);
  if (balanced) balance_.add(c, balanced->sum, routers, balanced->scale);
  const Tensor d = through_all_rows(c, x, stack.name, [&](Tensor rows) {
    return vocabulary_.forward_backward(c, store, rows, in.targets, loss);
  });
  for (const LentKeys& lent : loans)
    for (const Tensor& t : {lent.dk, lent.dv}) c.ops.run(op::Fill{t, 0});
  stack.backward(c, store, d, in.side, embedding_grad);
  if (in.side.per_layer_grad)
    per_layer_->backward(c, store, embedding_grad ? d : Tensor{}, in.side.per_layer_grad, embedded, in.ids,
                         inputs);
  if (!embedding_grad) return;
  with_all_rows(c, d, stack.name, [&](Tensor rows) {
    vocabulary_.embed_backward(c, store, rows, in.ids, true, in.side.positions);
  });
}

// Computes the per-layer inputs, if the model has any, and takes memory for their gradient if it is wanted.
PerLayerInputs::Saved CausalLm::begin_inputs(Ctx& c, ParameterStore& store, Tensor x, Inputs& in,
                                             bool embedding_grad) const {
  if (!per_layer_) return {};
  const PerLayerInputs::Saved s = per_layer_->forward(c, store, x, in.ids);
  in.side.per_layer = s.y;
  if (embedding_grad || store.layout().trains(per_layer_->unit()))
    in.side.per_layer_grad = c.saved.take(s.y.shape, c.dtype);
  return s;
}

CausalLm::Inputs CausalLm::upload_part(Ctx& c, const Batch& whole) {
  std::optional<Batch> part = part_of_rank(c, whole);
  Inputs in = upload(c, part ? *part : whole);
  if (c.grid) {
    in.side.parts = c.grid->sequence();
    in.side.sharing = c.grid->shape.sharing;
  }
  in.part = std::move(part);
  return in;
}

Tensor CausalLm::upload_ids(Ctx& c, const std::vector<std::int32_t>& ids) const {
  if (placeholders_.empty()) return vocabulary_.embedding.upload(c, ids);
  std::vector<std::int32_t> text = ids;
  for (std::int32_t& id : text)
    if (std::ranges::find(placeholders_, id) != placeholders_.end())
      id = static_cast<std::int32_t>(vocabulary_.embedding.padding);
  return vocabulary_.embedding.upload(c, text);
}

CausalLm::Inputs CausalLm::upload(Ctx& c, const Batch& b) {
  const Tensor ids = upload_ids(c, b.input_ids);
  const Targets targets{ft::upload(c, b.target_rows), ft::upload(c, b.targets)};
  Positions side = positions_.upload(c, b);
  side.blocks = sparse_.upload(c, longest_of(b.starts));
  side.shared = upload_shared(c, b);
  if (recurrent()) side.first = ft::upload(c, first_rows(side.shared ? side.shared.starts : side.starts));
  return {ids, targets, std::move(side)};
}

Tensor CausalLm::embed(Ctx& c, ParameterStore& store, const Inputs& in, std::int64_t longest) {
  return rows_of_rank(c, in.ids.numel(), vocabulary_.embedding.width(), [&] {
    const Tensor x = vocabulary_.embed(c, store, in.ids, in.side.positions);
    add_noise(c, x, longest);
    return x;
  });
}

void CausalLm::add_noise(Ctx& c, Tensor x, std::int64_t longest) const {
  if (noise_ == 0 || longest == 0) return;
  const double most = noise_ / std::sqrt(static_cast<double>(longest * x.cols()));
  c.numbers.each_run(x.rows(), [&](std::int64_t begin, std::int64_t end, std::int64_t number) {
    c.ops.run(op::Noise{.y = x.slice(begin, end),
                        .scale = static_cast<float>(most),
                        .random = c.random.with("embedding_noise"),
                        .first_row = number});
  });
}

Tensor CausalLm::hidden(Ctx& c, ParameterStore& store, Tensor ids, Positions side) {
  store.expect(forward_units());
  const std::vector<LentKeys> loans = take_loans(c, side.positions.numel(), false);
  side.lent = loans;
  const std::int64_t mark = c.saved.mark();
  Tensor x;
  for (BlockStack<DecoderBlock>& chunk : chunks_) {
    c.saved.rewind(mark);  // frees the memory of the chunk below
    x = run_chunk(c, store, ids, side, chunk);
  }
  return x;
}

Tensor CausalLm::run_chunk(Ctx& c, ParameterStore& store, Tensor ids, Positions& side,
                           BlockStack<DecoderBlock>& chunk) {
  const Stage& stage = chunk.stage;
  Tensor x = stage.first() ? vocabulary_.embed(c, store, ids, side.positions) : room_for_states(c, ids);
  if (per_layer_) side.per_layer = per_layer_->forward(c, store, x, ids).y;
  if (!stage.first()) exchange_states(c, {}, 0, {x}, rank_below(*c.pipeline()), "states");
  x = chunk.evaluate(c, store, x, side);
  if (!stage.last()) exchange_states(c, {x}, rank_above(*c.pipeline()), {}, 0, "states");
  return x;
}

Tensor CausalLm::room_for_states(Ctx& c, const Tensor& ids) const {
  return c.save(ids.numel(), vocabulary_.embedding.width());
}

std::vector<int> CausalLm::forward_units() const {
  std::vector<int> units = vocabulary_.embedding_units();
  if (per_layer_) units.push_back(per_layer_->unit());
  for (const BlockStack<DecoderBlock>& chunk : chunks_)
    units.insert(units.end(), chunk.units.begin(), chunk.units.end());
  const std::vector<int> head = vocabulary_.head_units();
  units.insert(units.end(), head.begin(), head.end());
  return units;
}

std::vector<int> CausalLm::step_units(const ParameterStore& store) const {
  std::vector<int> units = forward_units();
  const std::vector<int> back = chunks_[0].backward_units();
  units.insert(units.end(), back.begin(), back.end());
  const bool embedding = store.layout().trains(vocabulary_.embedding_unit());
  if (per_layer_ && (embedding || store.layout().trains(per_layer_->unit())))
    units.push_back(per_layer_->unit());
  if (embedding) units.push_back(vocabulary_.embedding_unit());
  return units;
}

}  // namespace ft
