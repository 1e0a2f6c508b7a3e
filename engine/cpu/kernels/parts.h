// Parts of the terms of a sum of products that a thread holds while it goes through the summed dimension.
#pragma once
#include "engine/cpu/kernels/words.h"

namespace ft::cpu::FT_TARGET {
namespace {

constexpr i64 kDepth = kLanes == 16 ? 512 : 256;  // words; a block of b is 512 KiB (AVX2: 128 KiB)
constexpr i64 kMaxParts = 16;

// A run of words of one term: its range in the packed block of b, and the place of a's words.
struct Part {
  const ProductTerm* term;
  i64 from, words;     // in the term's summed dimension
  i64 at;              // first of its words in the block of b
  const std::byte* a;  // word (row, k) at a + row * row_bytes + k * word_bytes
  i64 row_bytes, word_bytes;
  bool ends_depth;
};
// Number of elements in the words of a part; the last word may be half full.
template <class T>
i64 elements(const Part& p) {
  return smaller(p.words * kPack<T>, p.term->k - p.from * kPack<T>);
}

// Cuts the terms' words, in order, into depths. Depths have equal sizes of at most kDepth words, and all but
// the last are a multiple of `step`, a divisor of kDepth. A depth ends early if it has too many short terms.
// Elements are summed depth by depth, each depth from zero.
template <class T>
class Depths {
 public:
  explicit Depths(const ProductCall& call, i64 step = 1) : call_(call) {
    for (i64 t = 0; t < call.count; ++t) total_ += ceil_div(call.terms[t].k, kPack<T>);
    depth_ = total_ == 0 ? 0 : round_up(ceil_div(total_, ceil_div(total_, kDepth)), step);
  }
  // Writes the parts of the next depth, at most kMaxParts; returns their number.
  i64 next(Part* parts) {
    i64 count = 0, held = 0;
    for (; term_ < call_.count && held < depth_ && count < kMaxParts; ++count) {
      const ProductTerm* t = call_.terms + term_;
      const i64 words = ceil_div(t->k, kPack<T>), n = smaller(words - from_, depth_ - held);
      parts[count] = {t, from_, n, held, nullptr, 0, 0, false};
      held += n;
      from_ += n;
      if (from_ == words) {
        ++term_;
        from_ = 0;
      }
    }
    if (count > 0) parts[count - 1].ends_depth = true;
    done_ += held;
    return count;
  }
  bool at_start() const { return done_ == 0; }
  bool at_end() const { return done_ == total_; }

 private:
  const ProductCall& call_;
  i64 total_ = 0, depth_ = 0, done_ = 0, term_ = 0, from_ = 0;
};

}  // namespace
}  // namespace ft::cpu::FT_TARGET
