#include "engine/cpu/attention.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <mutex>
#include <new>

#include "engine/ops/check.h"

namespace ft::cpu {
namespace {

// A thread's workspace. Enough for the gradient in one go of sequences of 15000 tokens in heads of 128
// columns (5000 when heads share keys); longer ones are worked off in parts.
constexpr std::int64_t kWorkspace = std::int64_t{8} << 20;
static_assert(attention_words(kAttentionWidth) * 4 <= kWorkspace);

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Deals items of work out to threads: those of long sequences first, so that no thread is left with a long
// one at the end. Sequences are ordered by the magnitude of their length only, which needs no memory.
template <class Count>
class Dealer {
 public:
  struct Item {
    std::int64_t sequence, index;
  };
  // count(length): items of a sequence
  Dealer(std::span<const std::int32_t> starts, Count count) : starts_(starts), count_(count) {
    for (std::int64_t s = 0; s < sequences(); ++s) magnitudes_ |= std::uint64_t{1} << magnitude(s);
    sequence_ = sequences();
  }
  bool next(Item& item) {
    const std::lock_guard lock(mutex_);
    while (index_ == items_)
      if (!advance()) return false;
    item = {sequence_, index_++};
    return true;
  }

 private:
  std::int64_t sequences() const { return static_cast<std::int64_t>(starts_.size()) - 1; }
  std::int64_t length(std::int64_t s) const {
    return starts_[static_cast<std::size_t>(s + 1)] - starts_[static_cast<std::size_t>(s)];
  }
  int magnitude(std::int64_t s) const { return 32 - std::countl_zero(static_cast<std::uint32_t>(length(s))); }
  // To the next sequence.
  bool advance() {
    index_ = items_ = 0;
    if (++sequence_ < sequences()) {
      if (magnitude(sequence_) == now_) items_ = count_(length(sequence_));
      return true;
    }
    if (magnitudes_ <= 1) return false;  // what is left is empty
    now_ = 63 - std::countl_zero(magnitudes_);
    magnitudes_ &= ~(std::uint64_t{1} << now_);
    sequence_ = -1;
    return true;
  }

  std::span<const std::int32_t> starts_;
  Count count_;
  std::uint64_t magnitudes_ = 0;  // bit n: sequences of n binary digits are still to come
  int now_ = 0;
  std::int64_t sequence_, index_ = 0, items_ = 0;
  std::mutex mutex_;
};

Rows rows_of(const Tensor& t) { return {t.data, t.stride}; }

AttentionCall make_call(const Tensor& y, const Tensor& lse, const Tensor& q, const Tensor& k, const Tensor& v,
                        Heads heads, const Mask& mask, float scale) {
  require(heads.width <= kAttentionWidth, "attention: heads wider than 2048 columns");
  AttentionCall call{};
  call.q = rows_of(q);
  call.k = rows_of(k);
  call.v = rows_of(v);
  call.y = rows_of(y);
  call.lse = lse.as<float>();
  call.lse_stride = q.rows();
  call.heads = heads.query;
  call.key_heads = heads.key_value;
  call.width = heads.width;
  call.causal = mask.causal;
  call.window = mask.window;
  call.scale = scale;
  return call;
}

AttentionPart part_of(const Mask& mask, std::int64_t sequence, std::int64_t key_head) {
  const auto s = static_cast<std::size_t>(sequence);
  const std::int64_t first = mask.starts[s], count = mask.starts[s + 1] - first;
  return {first, count, first, count, key_head};
}

// Into how many parts one key head of a sequence falls, and whether its gradient is done in parts at all.
class Cut {
 public:
  Cut(const AttentionCall& call, const Mask& mask, int threads)
      : call_(call), at_once_(tiles_at_once(call.width)), group_(call.heads / call.key_heads) {
    double total = 0;
    for (std::size_t s = 1; s < mask.starts.size(); ++s) total += work(mask.starts[s] - mask.starts[s - 1]);
    share_ = total * static_cast<double>(call.key_heads) / threads;
  }
  std::int64_t key_tiles(std::int64_t length) const { return ceil_div(length, kAttentionTile); }
  std::int64_t key_blocks(std::int64_t length) const { return ceil_div(key_tiles(length), at_once_); }
  std::int64_t query_tiles(std::int64_t length) const { return key_tiles(length) * group_; }
  std::int64_t query_blocks(std::int64_t length) const { return ceil_div(query_tiles(length), at_once_); }
  std::int64_t at_once() const { return at_once_; }

  // Parts cost seven products instead of five, but fill all threads: that many rounds of whole sequences
  // must not cost more.
  bool whole(std::int64_t length) const {
    if (attention_words_with_dq(call_.width, group_, length, length) * 4 > kWorkspace) return false;
    const double rounds = share_ / work(length);
    return std::ceil(rounds) <= 1.4 * rounds;
  }

 private:
  double work(std::int64_t length) const {
    const std::int64_t seen = call_.window > 0 ? std::min(length, call_.window) : length;
    return static_cast<double>(length) * static_cast<double>(seen);
  }

  const AttentionCall& call_;
  std::int64_t at_once_, group_;
  double share_;  // of one thread
};

// Calls f(part, index of the sequence's items, workspace of the thread) for count(length) items times
// key heads of every sequence.
template <class Count, class F>
void deal(const Mask& mask, std::int64_t key_heads, Team& team, int threads, Count count, F f) {
  const auto items = [&](std::int64_t length) { return count(length) * key_heads; };
  Dealer<decltype(items)> dealer(mask.starts, items);
  const auto work = [&](std::int64_t, int thread) {
    typename Dealer<decltype(items)>::Item item;
    while (dealer.next(item))
      f(part_of(mask, item.sequence, item.index % key_heads), item.index / key_heads, thread);
  };
  share_out(team, threads, threads == 1, work);
}

// Waking other threads takes longer than small work does.
int threads_for(const Mask& mask, Heads heads, int threads) {
  constexpr double kSmall = 4e6;  // FLOPs, some tens of microseconds
  double flops = 0;
  for (std::size_t i = 1; i < mask.starts.size(); ++i) {
    const auto length = static_cast<double>(mask.starts[i] - mask.starts[i - 1]);
    flops += 2 * length * length * static_cast<double>(heads.query * heads.width);
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

void Attention::forward(Tensor y, Tensor lse, Tensor q, Tensor k, Tensor v, Heads heads, const Mask& mask,
                        float scale) {
  check::attention(y, lse, q, k, v, heads, mask);
  const AttentionCall call = make_call(y, lse, q, k, v, heads, mask, scale);
  const AttentionTiles run = q.dtype == DType::bf16 ? kernels_.attention.bf16 : kernels_.attention.f32;
  const int threads = threads_for(mask, heads, team_.size());
  const Cut cut(call, mask, threads);
  deal(
      mask, heads.key_value, team_, threads, [&](std::int64_t length) { return cut.query_blocks(length); },
      [&](const AttentionPart& part, std::int64_t index, int thread) {
        // late queries see more keys: those first
        const std::int64_t block = cut.query_blocks(part.queries) - 1 - index, begin = block * cut.at_once();
        run(call, part, begin, std::min(begin + cut.at_once(), cut.query_tiles(part.queries)),
            workspace(thread));
      });
}

void Attention::backward(Tensor dq, Tensor dk, Tensor dv, Tensor dy, Tensor y, Tensor lse, Tensor q, Tensor k,
                         Tensor v, Heads heads, const Mask& mask, float scale) {
  check::attention_grad(dq, dk, dv, dy, y, lse, q, k, v, heads, mask);
  AttentionCall call = make_call(y, lse, q, k, v, heads, mask, scale);
  call.dq = rows_of(dq);
  call.dk = rows_of(dk);
  call.dv = rows_of(dv);
  call.dy = rows_of(dy);
  const auto& run =
      q.dtype == DType::bf16 ? kernels_.attention_backward.bf16 : kernels_.attention_backward.f32;
  const int threads = threads_for(mask, heads, team_.size());
  const Cut cut(call, mask, threads);
  const auto parts = [&](std::int64_t length) {
    return cut.whole(length) ? 1 : cut.key_blocks(length) + cut.query_blocks(length);
  };
  deal(mask, heads.key_value, team_, threads, parts,
       [&](const AttentionPart& part, std::int64_t index, int thread) {
         float* w = workspace(thread);
         const std::int64_t key_tiles = cut.key_tiles(part.keys), blocks = cut.key_blocks(part.keys);
         if (cut.whole(part.keys)) return run.whole(call, part, 0, key_tiles, w);
         if (index < blocks) {
           const std::int64_t begin = index * cut.at_once();
           return run.keys(call, part, begin, std::min(begin + cut.at_once(), key_tiles), w);
         }
         const std::int64_t begin = (parts(part.queries) - 1 - index) * cut.at_once();
         run.queries(call, part, begin, std::min(begin + cut.at_once(), cut.query_tiles(part.queries)), w);
       });
}

void Attention::ranges(Tensor y, Tensor q, Tensor k, Tensor v, Heads heads, const KeyRanges& ranges,
                       float scale) {
  require(heads.width <= kAttentionWidth, "attention: heads wider than 2048 columns");
  const auto *first = ranges.first.as<std::int32_t>(), *count = ranges.count.as<std::int32_t>();
  std::int64_t pairs = 0;
  for (std::int64_t row = 0; row < q.rows(); ++row) {
    require(first[row] >= 0 && count[row] >= 1 && first[row] + std::int64_t{count[row]} <= k.rows(),
            "attention_ranges: keys that are not there");
    pairs += count[row];
  }
  const auto run = q.dtype == DType::bf16 ? kernels_.attention_ranges.bf16 : kernels_.attention_ranges.f32;
  constexpr double kSmall = 1e6;  // multiply-adds, some tens of microseconds
  const double work = 2.0 * static_cast<double>(pairs * heads.query * heads.width);
  const std::int64_t items = q.rows() * heads.key_value;
  share_out(team_, items, work < kSmall, [&](std::int64_t i, int thread) {
    const std::int64_t row = i / heads.key_value, all = count[row];
    const std::int64_t keys = ranges.window > 0 ? std::min(all, ranges.window) : all;
    run({rows_of(q), rows_of(k), rows_of(v), rows_of(y), heads.query, heads.key_value, heads.width, scale,
         row, i % heads.key_value, first[row] + all - keys, keys},
        workspace(thread));
  });
}

}  // namespace ft::cpu
