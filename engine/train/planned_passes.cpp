#include "engine/train/planned_passes.h"

#include <algorithm>
#include <numeric>

#include "engine/model/cached_decoding.h"
#include "engine/ops/ops.h"
#include "engine/parallel/sequence_part.h"
#include "engine/train/pipeline.h"

namespace ft {
namespace {

// Returns the length of sequence i: the first is the longest, the others share the rest.
std::int64_t length_of(std::int64_t i, std::int64_t sequences, std::int64_t tokens, std::int64_t longest) {
  const std::int64_t others = std::max<std::int64_t>(1, sequences - 1), rest = tokens - longest;
  return i == 0 ? longest : rest * i / others - rest * (i - 1) / others;
}

// Returns the starts of the rows that remain in blocks with token dropping: `kept` rows, taken from the first
// sequences.
std::vector<std::int32_t> kept_of(const std::vector<std::int32_t>& starts, std::int64_t kept) {
  std::vector<std::int32_t> all{0};
  for (std::size_t s = 1; s < starts.size(); ++s) {
    const std::int64_t left = kept - all.back(), length = starts[s] - starts[s - 1];
    all.push_back(all.back() + static_cast<std::int32_t>(std::min(left, length)));
  }
  return kept > 0 ? all : std::vector<std::int32_t>{};
}

// Gives every sequence its share of the targets, at its end. Numbers of the targets, which judges read, are
// left out.
void compare(Batch& b, const BatchShape& s) {
  b.compared.value.resize(static_cast<std::size_t>(s.compared));
  b.compared.sample.resize(static_cast<std::size_t>(s.compared));
  const std::int64_t sequences = s.whole > 0 ? 2 * s.compared : s.sequences;
  for (std::int64_t i = 0; i <= sequences; ++i)
    b.compared.first_target.push_back(static_cast<std::int32_t>(s.targets * i / sequences));
  b.compared.first_answer.assign(b.compared.first_target.begin(), b.compared.first_target.end() - 1);
  if (s.whole > 0) return;
  for (std::size_t i = 0; i + 1 < b.starts.size(); ++i)
    for (std::int32_t t = b.compared.first_target[i]; t < b.compared.first_target[i + 1]; ++t)
      b.target_rows[static_cast<std::size_t>(t)] =
          std::max(b.starts[i], b.starts[i + 1] - 1 - (b.compared.first_target[i + 1] - t));
}

// Makes rows that pairs share. Their places do not matter, only their number, and the largest position.
void share(Batch& b, const BatchShape& s) {
  b.starts = {0};
  for (std::int64_t i = 1; i <= s.sequences; ++i)
    b.starts.push_back(static_cast<std::int32_t>(s.tokens * i / s.sequences));
  b.input_ids.resize(static_cast<std::size_t>(s.tokens));
  b.positions.assign(static_cast<std::size_t>(s.tokens), static_cast<std::int32_t>(s.longest - 1));
  b.whole_rows.resize(static_cast<std::size_t>(s.whole));
  std::iota(b.whole_rows.begin(), b.whole_rows.begin() + static_cast<std::ptrdiff_t>(s.tokens), 0);
  for (std::int64_t i = 0; i <= 2 * s.compared; ++i)
    b.whole_starts.push_back(static_cast<std::int32_t>(s.whole * i / (2 * s.compared)));
}

Batch batch_of(const BatchShape& s, std::int64_t first_target) {
  Batch b;
  b.starts = {0};
  b.positions.reserve(static_cast<std::size_t>(s.tokens));
  for (std::int64_t i = 0; i < s.sequences; ++i) {
    const std::int64_t length = length_of(i, s.sequences, s.tokens, s.longest);
    b.positions.resize(b.positions.size() + static_cast<std::size_t>(length));
    std::iota(b.positions.end() - length, b.positions.end(), 0);
    b.starts.push_back(static_cast<std::int32_t>(b.positions.size()));
  }
  b.input_ids.resize(b.positions.size());
  b.source_starts = {0};
  for (std::int64_t i = 0; i < s.sequences && s.source_tokens > 0; ++i)
    b.source_starts.push_back(
        b.source_starts.back() +
        static_cast<std::int32_t>(length_of(i, s.sequences, s.source_tokens, s.longest_source)));
  b.source_ids.resize(static_cast<std::size_t>(s.source_tokens));
  b.kept_starts = kept_of(b.starts, s.kept);
  b.kept_source_starts = kept_of(b.source_starts, s.kept_source);
  b.target_rows.resize(static_cast<std::size_t>(s.targets));
  std::iota(b.target_rows.begin(), b.target_rows.end(), static_cast<std::int32_t>(first_target));
  b.targets.resize(static_cast<std::size_t>(s.targets));
  if (s.compared > 0) compare(b, s);
  if (s.whole > 0) share(b, s);
  return b;
}

// If ranks share a batch, targets begin in rank 0's rows, because no rank has more targets than rows.
std::int64_t first_target(const Grid* grid, std::int64_t tokens) {
  if (!grid) return 0;
  const RowShare share{0, grid->shape.sequence, grid->shape.sharing};
  return share.numbers(share.rows_of(tokens)).first;
}

}  // namespace

const Batch& MadeUpBatches::of(const BatchShape& shape, std::int64_t first_target) {
  const auto same = [&](const Made& m) { return m.shape == shape && m.first_target == first_target; };
  const auto at = std::find_if(made_.begin(), made_.end(), same);
  if (at != made_.end()) return at->batch;
  return made_.emplace_back(Made{shape, first_target, batch_of(shape, first_target)}).batch;
}

Arena endless(Ops& ops) { return {ops.allocate(0), std::int64_t{1} << 60, row_padding(ops.device())}; }

void run_batch(const Passes& p, Ops& ops, const BatchShape& shape, bool train, Peaks& peaks) {
  Arena saved = endless(ops), scratch = endless(ops), again = endless(ops);
  Ctx c{ops, saved, scratch, {p.dtype, {}, train, train ? peaks.inputs : nullptr}};
  c.grid = p.grid;
  Tensor loss = scratch.take({1}, DType::f64);
  const Batch& batch = p.batches.of(shape, first_target(p.grid, shape.tokens));
  const Pass pass{c, p.policy, {p.reference, {}, p.critic}};
  if (train && c.pipeline()) {
    std::vector<Arena> others;  // for the passes of the other chunks; any pass may use any arena
    for (int i = 1; i < p.grid->shape.chunks; ++i) others.push_back(endless(ops));
    c.in_flight = others;
    c.again = &again;
    run_stage({*p.policy.model->stages(), *p.policy.store, c, p.objective.stage_loss(loss, 1), 1,
               [&](std::int64_t, Ctx&) { return batch; }});
    peaks.flight = std::max(peaks.flight, saved.peak());
    for (const Arena& a : others) peaks.flight = std::max(peaks.flight, a.peak());
    peaks.saved = std::max(peaks.saved, peaks.flight);
    peaks.again = std::max(peaks.again, again.peak());
  } else if (train)
    p.objective.forward_backward(pass, batch, loss, 1);
  else
    p.objective.forward(pass, batch, loss);
  p.objective.take_columns();
  peaks.cover(saved, scratch);
}

void run_scoring(const Policy& scorer, Ops& ops, DType dtype, const BatchShape& shape, Peaks& peaks) {
  Arena saved = endless(ops), scratch = endless(ops);
  scores_of(Ctx{ops, saved, scratch, {dtype}}, scorer, batch_of(shape, 0));
  peaks.cover(saved, scratch);
}

void run_valuing(const Passes& p, Ops& ops, const BatchShape& shape, Peaks& peaks) {
  Arena saved = endless(ops), scratch = endless(ops);
  Ctx c{ops, saved, scratch, {p.dtype, {}, false}};
  c.grid = p.grid;
  const Pass pass{c, p.policy, {p.reference, {}, p.critic}};
  const Batch& batch = p.batches.of(shape);
  for (const bool reference : {false, true}) p.objective.logps(pass, batch, reference);
  if (p.critic) scores_of(c, p.critic, batch);
  peaks.cover(saved, scratch);
}

namespace {

// Makes as many sources as a pass can have; the last gets the remaining tokens.
Sources sources_of(const GenerationShape& shape) {
  Sources s;
  const std::int64_t n = shape.cache.sources, longest = shape.cache.source_capacity;
  for (std::int64_t i = 0; i < n && s.starts.back() < shape.source_tokens; ++i) {
    const std::int64_t room = shape.source_tokens - s.starts.back();
    s.starts.push_back(s.starts.back() + static_cast<std::int32_t>(std::min(longest, room)));
    s.places.push_back(static_cast<std::int32_t>(i));
  }
  s.ids.resize(static_cast<std::size_t>(s.starts.back()));
  return s;
}

}  // namespace

void run_generation(const Passes& p, Ops& ops, const GenerationShape& shape, Peaks& peaks) {
  Model& model = *p.policy.model;
  CachedDecoding& decoding = *model.decoding();
  ParameterStore& store = *p.policy.store;
  const DType dtype = p.dtype;
  Arena saved = endless(ops), scratch = endless(ops);
  Ctx c{ops, saved, scratch, {dtype, {}, false}};
  c.grid = p.grid;
  const KvCache cache = decoding.make_kv_cache(saved, shape.cache, dtype);
  const Tensor logits = saved.take({shape.logit_rows(), model.vocab_size()}, dtype);
  if (shape.cache.sources > 0) model.encoder()->encode(c, store, cache, sources_of(shape));
  Continuation next;
  for (std::int64_t i = 0; i < shape.cache.slots; ++i) {
    next.input_ids.resize(static_cast<std::size_t>(shape.tokens * (i + 1) / shape.cache.slots));
    next.starts.push_back(static_cast<std::int32_t>(next.rows()));
    next.slots.push_back(static_cast<std::int32_t>(i));
    next.past.push_back(static_cast<std::int32_t>(shape.cache.capacity) - next.starts.back() +
                        next.starts[next.starts.size() - 2]);
    if (shape.cache.sources == 0) continue;
    next.sources.push_back(static_cast<std::int32_t>(i % shape.cache.sources));
    next.source_lengths.push_back(1);
  }
  for (std::int64_t i = 0; i < shape.scored; ++i) next.wanted.push_back(static_cast<std::int32_t>(i));
  decoding.extend(c, store, cache, next, logits);
  if (const std::int64_t turn = decoding.keys_turn_at(); 0 < turn && turn < shape.cache.capacity) {
    Continuation all{.slots = {0}, .past = {0}};  // one sequence, computed again from its beginning
    all.input_ids.resize(static_cast<std::size_t>(turn + 1));
    all.starts.push_back(static_cast<std::int32_t>(turn + 1));
    decoding.extend(c, store, cache, all, logits.slice(0, 1));
  }
  peaks.cover(saved, scratch);
}

}  // namespace ft
