// Llama in generation: new tokens of several sequences after those whose keys and values are kept.
#include <numeric>

#include "models/llama/model.h"
#include "models/llama/positions.h"

namespace ft::llama {
namespace {

// Where the new tokens' keys go, and how far each of them sees.
struct CacheRows {
  std::vector<std::int32_t> rows, first, count, last;  // last: row of each sequence's last new token
  bool fresh = true;

  CacheRows(const Continuation& next, const KvCacheShape& shape) {
    require(next.starts.size() == next.slots.size() + 1 && next.past.size() == next.slots.size(),
            "extend: starts, slots and past of different lengths");
    for (std::size_t i = 0; i < next.slots.size(); ++i) {
      const std::int32_t from = next.starts[i], to = next.starts[i + 1], past = next.past[i];
      require(from < to && past >= 0 && past + (to - from) <= shape.capacity, "extend: a slot is too small");
      require(next.slots[i] >= 0 && next.slots[i] < shape.slots, "extend: a slot that is not there");
      const auto slot = static_cast<std::int32_t>(next.slots[i] * shape.capacity);
      for (std::int32_t t = 0; t < to - from; ++t) {
        rows.push_back(slot + past + t);
        first.push_back(slot);
        count.push_back(past + t + 1);
      }
      last.push_back(to - 1);
      fresh = fresh && past == 0;
    }
  }
};

}  // namespace

KvCache Llama::make_kv_cache(Arena& arena, KvCacheShape shape, DType dtype) const {
  require(shape.slots * shape.capacity < std::int64_t{1} << 31, "a cache of more than 2^31 tokens");
  return take_kv_cache(arena, shape, stack_.blocks.size(), config_.num_key_value_heads * config_.head_dim,
                       dtype);
}

void Llama::extend(Ctx& c, ParameterStore& store, const KvCache& cache, const Continuation& next,
                   Tensor logits) {
  Scope all(c.saved);
  const CacheRows where(next, cache.shape);
  const auto upload = [&](const auto& values, DType dtype) {
    Tensor t = c.saved.take({static_cast<std::int64_t>(values.size())}, dtype);
    c.ops.upload(t, values.data());
    return t;
  };
  const auto ints = [&](const std::vector<std::int32_t>& values) { return upload(values, DType::i32); };
  const CachedRows cached{&cache, ints(where.rows), {ints(where.first), ints(where.count)}, where.fresh};
  // Every token has a row of its own in the tables.
  std::vector<std::int32_t> own(next.input_ids.size());
  std::iota(own.begin(), own.end(), 0);
  const RopeTable table = rope_rows(config_, next);
  const Shape shape{next.rows(), config_.head_dim / 2};
  Inputs in{ints(next.input_ids), {}, {}};
  in.side = {ints(own), upload(table.cos, DType::f32).view(shape), upload(table.sin, DType::f32).view(shape),
             next.starts, &cached};
  const Tensor last = ints(where.last);
  const Tensor x = hidden(c, store, in);
  HeadUse use(*this, store, false);
  head_.logits(c, logits, x, last);
}

}  // namespace ft::llama
