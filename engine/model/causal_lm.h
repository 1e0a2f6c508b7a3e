// A decoder-only language model, one class for all families: embedding, blocks and head, the order in which
// their units are used, training and generation. A family provides the parts.
//
// Encoding encodes positions; it makes the Side of the blocks:
//   Block::Side upload(Ctx&, const Batch&), taken from c.saved;
//   Block::Side upload(Ctx&, const Continuation&, const CachedRows&);
//   turns_at, see Model::keys_turn_at.
// The CausalLm sets Block::Side::blocks. Block::Side::positions are rows of the table of positions if the
// embedding has one.
#pragma once
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "engine/layers/cache_rows.h"
#include "engine/layers/routing.h"
#include "engine/model/block_stack.h"
#include "engine/model/embedding_and_head.h"
#include "engine/model/model.h"
#include "engine/ops/ops.h"
#include "engine/parallel/row_shards.h"
#include "engine/parallel/sequence_part.h"
#include "engine/parallel/shared_rows.h"

namespace ft {

template <class Block, class Encoding>
class CausalLm final : public Model {
 public:
  struct Parts {
    Embedding embedding;
    Encoding positions;
    std::string stack;  // name of the stack of blocks, see BlockStack
    std::vector<Block> blocks;
    Head head;
    bool tied = false;             // the head uses the embedding's table
    std::int64_t key_columns = 0;  // of a KvCache: KV D
    std::int64_t heads = 0;        // query heads
    RouterBalanceLoss balance;     // of layers with experts
  };
  explicit CausalLm(Parts parts)
      : positions_(std::move(parts.positions)),
        key_columns_(parts.key_columns),
        heads_(parts.heads),
        balance_(parts.balance) {
    vocabulary_.embedding = std::move(parts.embedding);
    vocabulary_.embedding.weight.embedding = true;
    if (auto& positions = vocabulary_.embedding.positions) positions->embedding = true;
    vocabulary_.head = std::move(parts.head);
    if (parts.tied) vocabulary_.tie();
    blocks_ = std::move(parts.blocks);
    chunks_[0].blocks = blocks_;
    chunks_[0].name = std::move(parts.stack);
  }

  void visit(Visitor& v) override {
    vocabulary_.visit_embedding(v);
    chunks_[0].visit(v);
    vocabulary_.visit_head(v);
  }
  void add_units(ParameterStore& store) override {
    vocabulary_.add_embedding(store);
    trains_below_.clear();
    for (BlockStack<Block>& chunk : chunks_) {
      bool trains = any_trained(vocabulary_.embedding);
      for (std::int64_t i = 0; i < chunk.stage.begin; ++i)
        trains = trains || any_trained(blocks_[static_cast<std::size_t>(i)]);
      trains_below_.push_back(trains);
      chunk.add_units(store, trains);
    }
    vocabulary_.add_head(store);
  }
  void cut_all(TensorRank t) override {
    for (Block& b : blocks_) b.cut(t);
    vocabulary_.cut(t);
    key_columns_ /= t.size;
    heads_ /= t.size;
  }
  void keep_stages(const std::vector<Stage>& chunks) override {
    if (balance_.coefficient != 0)
      throw UserError(Exit::config,
                      str("distributed.pipeline_parallel_size is ", chunks[0].size / std::ssize(chunks),
                          ": the loss of uneven experts needs all layers; set "
                          "output_router_logits to false in config.json"));
    chunks_.resize(chunks.size());
    for (std::size_t i = 0; i < chunks.size(); ++i) {
      chunks_[i].blocks = blocks_;
      chunks_[i].name = chunks_[0].name;
      chunks_[i].stage = chunks[i];
    }
    vocabulary_.keep_stages(chunks);
  }
  void untie() override { vocabulary_.untie(); }
  const Parameter& input_embedding() const override { return vocabulary_.embedding.weight; }
  Parameter& train_rows(Parameter values, std::vector<std::int32_t> ids) override {
    return vocabulary_.train_rows(std::move(values), std::move(ids));
  }
  Parameter& train_head_rows(Parameter values, std::vector<std::int32_t> ids) override {
    return vocabulary_.train_head_rows(std::move(values), std::move(ids));
  }
  void adapt_embedding(std::unique_ptr<EmbeddingAdapter> adapter) override {
    vocabulary_.adapt_embedding(std::move(adapter));
  }
  void set_embedding_noise(double alpha) override { noise_ = alpha; }
  void score_instead() override { vocabulary_.score_instead(); }
  void set_sparse_attention(const SparseAttentionConfig& config) override {
    sparse_ = SparseAttention(config, AttentionDirection::unidirectional, heads_);
  }
  std::int64_t blocks() const override {
    std::int64_t n = 0;
    for (const BlockStack<Block>& chunk : chunks_) n += chunk.size();
    return n;
  }
  void set_recompute(std::int64_t n) override {
    for (BlockStack<Block>& chunk : chunks_) {
      chunk.recomputed = chunk.whole = 0;
      chunk.segment = segment_of(n);
    }
    // Adds one block of each chunk in turn: the largest chunk decides the memory of a pass.
    for (std::int64_t left = std::min(std::abs(n), blocks()); left > 0;)
      for (BlockStack<Block>& chunk : chunks_) {
        std::int64_t& some = n > 0 ? chunk.recomputed : chunk.whole;
        if (left > 0 && some < chunk.size()) ++some, --left;
      }
  }
  void drop_tokens(const std::vector<std::int64_t>& blocks, bool encoder, std::int64_t all) override {
    if (encoder)
      throw UserError(Exit::config, kRandomLtd + ".model_type: this model has no encoder; set decoder");
    chunks_[0].drop_tokens(blocks, all);
  }
  std::int64_t vocab_size() const override { return vocabulary_.head.lm_head.whole_out(); }

  void share_rows(std::int64_t ranks, SequenceSharing by) override {
    if (balance_.coefficient != 0)
      throw UserError(Exit::config, str("distributed.sequence_parallel_size is ", ranks,
                                        ": the loss of uneven experts needs all tokens of a micro-batch; set "
                                        "output_router_logits to false in config.json"));
    if constexpr (requires(const Block& block) { block.share_rows(ranks, by); })
      for (const Block& block : blocks_) block.share_rows(ranks, by);
    else
      Model::share_rows(ranks, by);
  }

  void forward(Ctx& c, ParameterStore& store, const Batch& b, Tensor loss) override {
    Scope all(c.saved);
    const Inputs in = upload_part(c, b);
    const Tensor x = hidden(c, store, in.ids, in.side);
    if (top().stage.last()) vocabulary_.forward(c, store, loss, x, in.targets);
  }
  void logits(Ctx& c, ParameterStore& store, const Batch& b, Tensor y) override {
    Scope all(c.saved);
    const Inputs in = upload(c, b);
    const Tensor x = hidden(c, store, in.ids, in.side);
    vocabulary_.logits(c, store, y, x, in.targets.rows);
  }
  void forward_rows(Ctx& c, ParameterStore& store, const Batch& b, RowLoss& loss) override {
    Scope all(c.saved);
    const Inputs in = upload(c, b);
    const Tensor x = hidden(c, store, in.ids, in.side);
    vocabulary_.forward(c, store, loss, x, in.targets);
  }
  void forward_backward(Ctx& c, ParameterStore& store, const Batch& b, Tensor loss, float scale,
                        float smoothing) override {
    const auto head = [&](Tensor x, const Targets& t) {
      return vocabulary_.forward_backward(c, store, loss, x, t, scale, smoothing);
    };
    train(c, store, b, head, {loss, scale});
  }
  void forward_backward_rows(Ctx& c, ParameterStore& store, const Batch& b, RowLoss& loss) override {
    train(c, store, b,
          [&](Tensor x, const Targets& t) { return vocabulary_.forward_backward(c, store, loss, x, t); });
  }

  void forward_logits(Ctx& c, ParameterStore& store, const Batch& b, LogitLoss& of, Tensor loss) override {
    Scope all(c.saved);
    const Inputs in = upload(c, b);
    const Tensor x = hidden(c, store, in.ids, in.side);
    vocabulary_.forward(c, store, of, loss, x, in.targets);
  }
  void forward_backward_logits(Ctx& c, ParameterStore& store, const Batch& b, LogitLoss& of, Tensor loss,
                               float scale) override {
    train(c, store, b, [&](Tensor x, const Targets& t) {
      return vocabulary_.forward_backward(c, store, of, loss, x, t, scale);
    });
  }
  std::unique_ptr<TargetLogits> target_logits(Ctx& c, ParameterStore& store, const Batch& b) override {
    const Inputs in = upload(c, b);
    const Tensor x = hidden(c, store, in.ids, in.side);
    return vocabulary_.target_logits(c, store, x, in.targets.rows);
  }

  States take_in(Ctx& c, Batch b, int chunk, std::size_t slot) override {
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
  States forward_stage(Ctx& c, ParameterStore& store, std::size_t slot) override {
    Flight& f = flights_[slot];
    c.begin(Phase::forward);
    BlockStack<Block>& chunk = chunks_[f.chunk];
    if (chunk.stage.first()) {
      f.x = vocabulary_.embed(c, store, f.in.ids, f.in.side.positions);
      add_noise(c, f.x, longest_of(f.batch.starts));
    }
    chunk.turn_to(slot);
    f.y = chunk.forward(c, store, f.x, f.in.side, {}, f.y);
    return {chunk.stage.last() ? Tensor{} : f.y};
  }
  States take_gradients(Ctx& c, std::size_t slot) override {
    Flight& f = flights_[slot];
    const BlockStack<Block>& chunk = chunks_[f.chunk];
    if (!trains_from(chunk)) return {};
    return {f.d = chunks_.size() > 1 ? f.y : c.temporary(f.y.rows(), f.y.cols())};
  }
  States backward_stage(Ctx& c, ParameterStore& store, std::size_t slot, const StageLoss& l) override {
    Flight& f = flights_[slot];
    BlockStack<Block>& chunk = chunks_[f.chunk];
    chunk.turn_to(slot);
    if (!chunk.stage.last())
      c.begin(Phase::backward);
    else
      f.d = vocabulary_.forward_backward(c, store, l.sum, f.y, f.in.targets, l.scale, l.smoothing);
    if (!trains_from(chunk)) return {};
    const bool below = trains_below_[f.chunk];
    chunk.backward(c, store, f.d, f.in.side, below);
    if (below && !chunk.stage.first()) return {f.d};
    if (below) vocabulary_.embed_backward(c, store, f.d, f.in.ids, true, f.in.side.positions);
    return {};
  }

  KvCache make_kv_cache(Arena& arena, KvCacheShape shape, DType dtype) const override {
    KvCache cache = take_kv_cache(arena, shape, static_cast<std::size_t>(blocks()), key_columns_, dtype);
    std::vector<KvCache::Layer> all(blocks_.size());
    auto own = cache.layers.begin();
    for (const BlockStack<Block>& chunk : chunks_) {
      std::copy_n(own, chunk.size(), all.begin() + chunk.stage.begin);
      own += chunk.size();
    }
    cache.layers = std::move(all);
    return cache;
  }
  std::int64_t keys_turn_at() const override { return positions_.turns_at; }
  void extend(Ctx& c, ParameterStore& store, const KvCache& cache, const Continuation& next,
              Tensor y) override {
    Scope all(c.saved);
    const CacheRows where(next, cache.shape);
    CachedRows cached{&cache,
                      ft::upload(c, where.rows),
                      {ft::upload(c, where.first), ft::upload(c, where.count)},
                      where.fresh};
    const Tensor ids = vocabulary_.embedding.upload(c, next.input_ids);
    const BlockMask blocks = sparse_.upload(c, where.longest, where.fresh);
    sparse_.restrict(c, cached.ranges, where.count);
    Side side = positions_.upload(c, next, cached);
    side.blocks = blocks;
    const Tensor last = ft::upload(c, where.last);
    const Tensor x = hidden(c, store, ids, side);
    vocabulary_.logits(c, store, y, x, last);
  }

 private:
  using Side = typename Block::Side;
  struct Inputs {  // a batch on the device
    Tensor ids;
    Targets targets;
    Side side;
    Batch part = {};  // this rank's part of a shared batch, which side refers to
  };
  struct Flight {  // a micro-batch between its passes through a stage
    std::size_t chunk = 0;
    Batch batch;
    Inputs in;
    Tensor x, y, d;  // states from the stage below; states for the stage above; their gradient
  };
  Inputs upload_part(Ctx& c, const Batch& whole) {
    if (c.shards) {
      Batch part = filled_up(whole, c.tensor()->size());
      Inputs in = upload(c, part);
      in.part = std::move(part);
      return in;
    }
    Communicator* const ranks = c.grid ? c.grid->sequence() : nullptr;
    if (!ranks) return upload(c, whole);
    const RowShare share{ranks->rank(), ranks->size(), c.grid->shape.sharing};
    Batch part = part_of(whole, share);
    c.numbers = share.numbers(part.tokens());
    Inputs in = upload(c, part);
    if constexpr (requires { in.side.parts; }) {
      in.side.parts = ranks;
      in.side.sharing = share.by;
    }
    in.part = std::move(part);
    return in;
  }
  Inputs upload(Ctx& c, const Batch& b) {
    const Tensor ids = vocabulary_.embedding.upload(c, b.input_ids);
    const Targets targets{ft::upload(c, b.target_rows), ft::upload(c, b.targets)};
    Side side = positions_.upload(c, b);
    side.blocks = sparse_.upload(c, longest_of(b.starts));
    side.shared = upload_shared(c, b);
    return {ids, targets, std::move(side)};
  }
  struct ScaledLoss {
    Tensor loss;
    float scale = 1;  // factor of its gradients
  };
  // head: computes the gradient of the last states from these states. balance: the loss that the routers'
  // loss is added to; may be empty.
  template <class HeadPass>
  void train(Ctx& c, ParameterStore& store, const Batch& b, HeadPass head, ScaledLoss balance = {}) {
    Scope all(c.saved), scratch(c.scratch);
    store.expect(step_units(store));
    c.begin(Phase::forward);
    const ShardedStream sharded(c);
    Inputs in = upload_part(c, b);
    RouterStatistics routers;
    if (balance.loss && balance_.coefficient != 0) {
      routers = balance_.take(c);
      in.side.routers = &routers;
    }
    BlockStack<Block>& stack = chunks_[0];
    const Tensor x =
        stack.forward(c, store, embed(c, store, in, longest_of(b.starts)), in.side, b.kept_starts);
    if (in.side.routers) balance_.add(c, balance.loss, routers, balance.scale);
    const Tensor d = from_head(c, x, in.targets, head);
    const bool embedding_grad = store.layout().trains(vocabulary_.embedding_unit());
    stack.backward(c, store, d, in.side, embedding_grad);
    if (embedding_grad) {
      const WholeRows whole(c);
      vocabulary_.embed_backward(c, store, c.shards ? gather_rows(c, d, stack.name) : d, in.ids, true,
                                 in.side.positions);
    }
  }
  // Returns the embedded tokens; if ranks shard the rows of the residual stream, only this rank's rows.
  Tensor embed(Ctx& c, ParameterStore& store, const Inputs& in, std::int64_t longest) {
    const std::int64_t parts = c.shards ? c.tensor()->size() : 1, n = in.ids.numel() / parts;
    const Tensor own = c.shards ? c.save(n, vocabulary_.embedding.width()) : Tensor{};
    if (c.shards) c.numbers = {n * c.tensor()->rank()};
    std::optional<Scope> forget;
    if (c.shards) forget.emplace(c.saved);
    const WholeRows whole(c);
    const Tensor x = vocabulary_.embed(c, store, in.ids, in.side.positions);
    add_noise(c, x, longest);
    if (!c.shards) return x;
    c.ops.copy(own, own_rows(c, x));
    return own;
  }
  template <class HeadPass>
  Tensor from_head(Ctx& c, Tensor x, const Targets& targets, HeadPass head) {
    if (!c.shards) return head(x, targets);
    const Tensor d = c.temporary(x.rows(), x.cols());
    Scope scratch(c.scratch);
    const WholeRows whole(c);
    c.ops.copy(d, own_rows(c, head(gather_rows(c, x, top().name), targets)));
    return d;
  }
  // True if a block of the chunk is trained, or anything below it.
  static bool trains_from(const BlockStack<Block>& chunk) {
    return chunk.first < static_cast<std::size_t>(chunk.size());
  }
  // The chunk whose last states go to the head, in the last stage.
  const BlockStack<Block>& top() const { return chunks_.back(); }
  // Returns the states after the last block and keeps nothing else.
  Tensor hidden(Ctx& c, ParameterStore& store, Tensor ids, const Side& side) {
    store.expect(forward_units());
    const std::int64_t mark = c.saved.mark();
    Tensor x;
    for (BlockStack<Block>& chunk : chunks_) {
      c.saved.rewind(mark);  // frees the memory of the chunk below
      x = run_chunk(c, store, ids, side, chunk);
    }
    return x;
  }
  Tensor run_chunk(Ctx& c, ParameterStore& store, Tensor ids, const Side& side, BlockStack<Block>& chunk) {
    const Stage& stage = chunk.stage;
    Tensor x = stage.first() ? vocabulary_.embed(c, store, ids, side.positions) : room_for_states(c, ids);
    if (!stage.first()) exchange_states(c, {}, 0, {x}, rank_below(*c.pipeline()), "states");
    x = chunk.evaluate(c, store, x, side);
    if (!stage.last()) exchange_states(c, {x}, rank_above(*c.pipeline()), {}, 0, "states");
    return x;
  }
  Tensor room_for_states(Ctx& c, const Tensor& ids) const {
    return c.save(ids.numel(), vocabulary_.embedding.width());
  }

  void add_noise(Ctx& c, Tensor x, std::int64_t longest) const {
    if (noise_ == 0 || longest == 0) return;
    const double most = noise_ / std::sqrt(static_cast<double>(longest * x.cols()));
    c.numbers.each_run(x.rows(), [&](std::int64_t begin, std::int64_t end, std::int64_t number) {
      c.ops.run(op::Noise{.y = x.slice(begin, end),
                          .scale = static_cast<float>(most),
                          .random = c.random.with("embedding_noise"),
                          .first_row = number});
    });
  }

  // Units of a forward pass, in the order of their use.
  std::vector<int> forward_units() const {
    std::vector<int> units = vocabulary_.embedding_units();
    for (const BlockStack<Block>& chunk : chunks_)
      units.insert(units.end(), chunk.units.begin(), chunk.units.end());
    const std::vector<int> head = vocabulary_.head_units();
    units.insert(units.end(), head.begin(), head.end());
    return units;
  }
  // Units of a forward and a backward pass, in the order of their use.
  std::vector<int> step_units(const ParameterStore& store) const {
    std::vector<int> units = forward_units();
    const std::vector<int> back = chunks_[0].backward_units();
    units.insert(units.end(), back.begin(), back.end());
    if (store.layout().trains(vocabulary_.embedding_unit())) units.push_back(vocabulary_.embedding_unit());
    return units;
  }

  EmbeddingAndHead vocabulary_;
  Encoding positions_;
  std::vector<Block> blocks_;
  // A stack of all blocks, or this rank's chunks in a pipeline.
  std::vector<BlockStack<Block>> chunks_ = std::vector<BlockStack<Block>>(1);
  std::int64_t key_columns_, heads_;
  RouterBalanceLoss balance_;
  SparseAttention sparse_;
  double noise_ = 0;                // NEFTune's alpha
  std::vector<bool> trains_below_;  // (chunks) something below the chunk's first block is trained
  std::vector<Flight> flights_;     // by slot
};

}  // namespace ft
