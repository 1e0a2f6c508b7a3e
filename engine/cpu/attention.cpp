#include "engine/cpu/attention.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <mutex>
#include <new>

#include "engine/core/divide.h"

namespace ft::cpu {
namespace {

// Bytes of a thread's workspace. They suffice to compute the gradient of sequences of up to 15000 tokens in
// heads of 128 columns at once (5000 if heads share keys); longer ones are processed in parts.
constexpr std::int64_t kWorkspace = std::int64_t{8} << 20;
static_assert(attention_words(kAttentionWidth) * 4 <= kWorkspace);

// The lengths of all sequences, and their rows among the queries and the keys.
class Sequences {
 public:
  struct Lengths {
    std::int64_t queries, keys;
  };
  explicit Sequences(const Mask& mask) : mask_(mask), key_starts_(mask.starts_of_keys()) {}

  std::int64_t count() const { return static_cast<std::int64_t>(mask_.starts.size()) - 1; }
  Lengths lengths(std::int64_t s) const { return {length(mask_.starts, s), length(key_starts_, s)}; }
  AttentionPart part(std::int64_t s, std::int64_t key_head) const {
    const auto [queries, keys] = lengths(s);
    const auto at = static_cast<std::size_t>(s);
    return {mask_.starts[at], queries, key_starts_[at], keys, key_head};
  }
  // Estimate of the pairs of a sequence that see each other.
  double work(const Lengths& n) const {
    const std::int64_t seen = mask_.window > 0 ? std::min(n.keys, mask_.window) : n.keys;
    return static_cast<double>(n.queries) * static_cast<double>(seen);
  }

 private:
  static std::int64_t length(std::span<const std::int32_t> starts, std::int64_t s) {
    return starts[static_cast<std::size_t>(s + 1)] - starts[static_cast<std::size_t>(s)];
  }

  const Mask& mask_;
  std::span<const std::int32_t> key_starts_;
};

// Gives threads items of work, items of long sequences first, so that no thread gets a long one at the end.
// It orders sequences only by the number of binary digits of their lengths, which needs no memory.
template <class Count>
class Dealer {
 public:
  struct Item {
    std::int64_t sequence, index;
  };
  // count(lengths): number of items of a sequence.
  Dealer(const Sequences& sequences, Count count) : sequences_(sequences), count_(count) {
    for (std::int64_t s = 0; s < sequences.count(); ++s) magnitudes_ |= std::uint64_t{1} << magnitude(s);
    sequence_ = sequences.count();
  }
  bool next(Item& item) {
    const std::lock_guard lock(mutex_);
    while (index_ == items_)
      if (!advance()) return false;
    item = {sequence_, index_++};
    return true;
  }

 private:
  int magnitude(std::int64_t s) const {
    const auto [queries, keys] = sequences_.lengths(s);
    return 32 - std::countl_zero(static_cast<std::uint32_t>(std::max(queries, keys)));
  }
  // Goes to the next sequence; returns false after the last one.
  bool advance() {
    index_ = items_ = 0;
    if (++sequence_ < sequences_.count()) {
      if (magnitude(sequence_) == now_) items_ = count_(sequences_.lengths(sequence_));
      return true;
    }
    if (magnitudes_ <= 1) return false;  // only empty sequences are left
    now_ = 63 - std::countl_zero(magnitudes_);
    magnitudes_ &= ~(std::uint64_t{1} << now_);
    sequence_ = -1;
    return true;
  }

  const Sequences& sequences_;
  Count count_;
  std::uint64_t magnitudes_ = 0;  // bit n: sequences whose length has n binary digits are still to come
  int now_ = 0;
  std::int64_t sequence_, index_ = 0, items_ = 0;
  std::mutex mutex_;
};

Rows rows_of(const Tensor& t) { return {t.data, t.stride}; }

// A table's kernel for a type.
template <class Kernels>
const auto& of_type(const Kernels& k, DType t) {
  return t == DType::bf16 ? k.bf16 : t == DType::f16 ? k.f16 : k.f32;
}

AttentionBlocks blocks_of(const Tensor& bits, std::int64_t rows, bool of_each_head, std::int64_t block) {
  if (!bits) return {};
  return {reinterpret_cast<const std::uint32_t*>(bits.as<std::int32_t>()),
          of_each_head ? rows * bits.cols() : 0, rows, bits.cols(),
          std::countr_zero(static_cast<std::uint64_t>(block))};
}

// op: Attention or AttentionGrad.
template <class Op>
AttentionCall make_call(const Op& op) {
  require(op.heads.width <= kAttentionWidth, "attention: heads wider than 2048 columns");
  AttentionCall call{};
  call.q = rows_of(op.q);
  call.k = rows_of(op.k);
  call.v = rows_of(op.v);
  call.y = rows_of(op.y);
  call.lse = op.lse.template as<float>();
  call.lse_stride = op.q.rows();
  call.heads = op.heads.query;
  call.key_heads = op.heads.key_value;
  call.width = op.heads.width;
  call.causal = op.mask.causal;
  call.window = op.mask.window;
  call.scale = op.scores.scale;
  call.cap = op.scores.cap;
  call.bias = rows_of(op.scores.bias);
  call.reach = op.scores.reach();
  call.dropout = op.scores.dropout;
  call.random = op.scores.random.key;
  call.first_head = op.scores.first_head;
  call.all_heads = op.scores.all_heads > 0 ? op.scores.all_heads : call.heads;
  if (const BlockMask& b = op.mask.blocks)
    call.blocks = blocks_of(b.bits, b.rows(), b.layout->heads() > 1, b.layout->block());
  return call;
}

// Number of parts that one key head of a sequence is cut into, and the decision to compute its gradient in
// parts.
class Cut {
 public:
  using Lengths = Sequences::Lengths;
  Cut(const AttentionCall& call, const Sequences& sequences, int threads)
      : sequences_(sequences),
        width_(call.width),
        at_once_(tiles_at_once(call.width)),
        group_(call.heads / call.key_heads) {
    double total = 0;
    for (std::int64_t s = 0; s < sequences.count(); ++s) total += sequences.work(sequences.lengths(s));
    share_ = total * static_cast<double>(call.key_heads) / threads;
  }
  std::int64_t key_tiles(std::int64_t keys) const { return ceil_div(keys, kAttentionTile); }
  std::int64_t key_blocks(std::int64_t keys) const { return ceil_div(key_tiles(keys), at_once_); }
  std::int64_t query_tiles(std::int64_t queries) const { return ceil_div(queries, kAttentionTile) * group_; }
  std::int64_t query_blocks(std::int64_t queries) const { return ceil_div(query_tiles(queries), at_once_); }
  std::int64_t at_once() const { return at_once_; }

  // True if the gradient is computed at once. Parts cost seven products instead of five, but occupy all
  // threads, so this is chosen only if rounding up the number of sequences per thread costs less than that.
  bool whole(const Lengths& n) const {
    if (attention_words_with_dq(width_, group_, n.queries, n.keys) * 4 > kWorkspace) return false;
    if (n.queries == 0) return true;
    const double rounds = share_ / sequences_.work(n);
    return std::ceil(rounds) <= 1.4 * rounds;
  }
  // Number of items of the gradient of one key head.
  std::int64_t parts(const Lengths& n) const {
    return whole(n) ? 1 : key_blocks(n.keys) + query_blocks(n.queries);
  }

 private:
  const Sequences& sequences_;
  std::int64_t width_, at_once_, group_;
  double share_;  // work of one thread
};

// Calls f(part, index of the item, thread) for count(lengths) items of every sequence and key head.
template <class Count, class F>
void deal(const Sequences& sequences, std::int64_t key_heads, Team& team, int threads, Count count, F f) {
  const auto items = [&](const Sequences::Lengths& n) { return count(n) * key_heads; };
  Dealer<decltype(items)> dealer(sequences, items);
  const auto work = [&](std::int64_t, int thread) {
    typename Dealer<decltype(items)>::Item item;
    while (dealer.next(item))
      f(sequences.part(item.sequence, item.index % key_heads), item.index / key_heads, thread);
  };
  share_out(team, threads, threads == 1, work);
}

// Number of threads to use: waking other threads takes longer than small work.
int threads_for(const Sequences& sequences, Heads heads, int threads) {
  constexpr double kSmall = 4e6;  // FLOPs, some tens of microseconds
  double flops = 0;
  for (std::int64_t s = 0; s < sequences.count(); ++s) {
    const auto [queries, keys] = sequences.lengths(s);
    flops += 2.0 * static_cast<double>(queries * keys * heads.query * heads.width);
  }
  return flops < kSmall ? 1 : threads;
}

}  // namespace

Attention::Attention(const Kernels& kernels, Team& team)
    : kernels_(kernels),
      team_(team),
      memory_(static_cast<std::byte*>(
                  std::aligned_alloc(4096, static_cast<std::size_t>(team.size() * kWorkspace))),
              [](std::byte* p) { std::free(p); }) {
  if (!memory_) throw std::bad_alloc();
}

std::int64_t Attention::workspace_bytes() const { return team_.size() * kWorkspace; }
float* Attention::workspace(int thread) const {
  return reinterpret_cast<float*>(memory_.get() + thread * kWorkspace);
}

void Attention::forward(const op::Attention& op) {
  const AttentionCall call = make_call(op);
  const AttentionTiles run = of_type(kernels_.attention, op.q.dtype);
  const Sequences sequences(op.mask);
  const int threads = threads_for(sequences, op.heads, team_.size());
  const Cut cut(call, sequences, threads);
  deal(
      sequences, op.heads.key_value, team_, threads,
      [&](const Sequences::Lengths& n) { return cut.query_blocks(n.queries); },
      [&](const AttentionPart& part, std::int64_t index, int thread) {
        // late queries see more keys: they come first
        const std::int64_t block = cut.query_blocks(part.queries) - 1 - index, begin = block * cut.at_once();
        run(call, part, begin, std::min(begin + cut.at_once(), cut.query_tiles(part.queries)),
            workspace(thread));
      });
}

void Attention::backward(const op::AttentionGrad& op) {
  AttentionCall call = make_call(op);
  call.dq = rows_of(op.dq);
  call.dk = rows_of(op.dk);
  call.dv = rows_of(op.dv);
  call.dy = rows_of(op.dy);
  const auto& run = of_type(kernels_.attention_backward, op.q.dtype);
  const Sequences sequences(op.mask);
  const int threads = threads_for(sequences, op.heads, team_.size());
  const Cut cut(call, sequences, threads);
  deal(
      sequences, op.heads.key_value, team_, threads,
      [&](const Sequences::Lengths& n) { return cut.parts(n); },
      [&](const AttentionPart& part, std::int64_t index, int thread) {
        float* w = workspace(thread);
        const Sequences::Lengths n{part.queries, part.keys};
        const std::int64_t key_tiles = cut.key_tiles(n.keys), blocks = cut.key_blocks(n.keys);
        if (cut.whole(n)) return run.whole(call, part, 0, key_tiles, w);
        if (index < blocks) {
          const std::int64_t begin = index * cut.at_once();
          return run.keys(call, part, begin, std::min(begin + cut.at_once(), key_tiles), w);
        }
        const std::int64_t begin = (cut.parts(n) - 1 - index) * cut.at_once();
        run.queries(call, part, begin, std::min(begin + cut.at_once(), cut.query_tiles(n.queries)), w);
      });
  if (!op.dbias) return;
  call.dbias = op.dbias.as<float>();
  call.dbias_stride = op.dbias.stride;
  const std::int64_t group = op.heads.query / op.heads.key_value;
  share_out(team_, op.heads.query, threads == 1, [&](std::int64_t head, int thread) {
    for (std::int64_t s = 0; s < sequences.count(); ++s)
      run.bias(call, sequences.part(s, head / group), head, head + 1, workspace(thread));
  });
}

void Attention::ranges(const op::AttentionRanges& op) {
  const Heads& heads = op.heads;
  require(heads.width <= kAttentionWidth, "attention: heads wider than 2048 columns");
  const auto *first = op.ranges.first.as<std::int32_t>(), *count = op.ranges.count.as<std::int32_t>();
  std::int64_t pairs = 0;
  for (std::int64_t row = 0; row < op.q.rows(); ++row) pairs += count[row];
  const auto run = of_type(kernels_.attention_ranges, op.q.dtype);
  constexpr double kSmall = 1e5;  // FLOPs, some tens of microseconds: keys come from memory
  const double work = 2.0 * static_cast<double>(pairs * heads.query * heads.width);
  const std::int64_t items = op.q.rows() * heads.key_value;
  const Tensor& bits = op.ranges.blocks;
  const std::int64_t layouts = bits ? bits.rows() / op.q.rows() : 0;
  share_out(team_, items, work < kSmall, [&](std::int64_t i, int thread) {
    const std::int64_t row = i / heads.key_value, all = count[row], window = op.ranges.window;
    const std::int64_t keys = window > 0 ? std::min(all, window) : all;
    run({rows_of(op.q), rows_of(op.k), rows_of(op.v), rows_of(op.y), heads.query, heads.key_value,
         heads.width, op.scores.scale, op.scores.cap, rows_of(op.scores.bias), op.scores.reach(), row,
         i % heads.key_value, first[row] + all - keys, keys,
         bits ? blocks_of(bits.slice(row * layouts, (row + 1) * layouts), 1, layouts > 1, op.ranges.block)
              : AttentionBlocks{},
         all - keys, op.lse ? op.lse.as<float>() : nullptr, op.lse ? op.lse.stride : 0},
        workspace(thread));
  });
}

}  // namespace ft::cpu
