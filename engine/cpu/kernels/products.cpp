// Sums of matrix products. A thread computes a block of y: some panels of kTile columns, and one or two
// thousand rows. It packs b's columns into multiply order (words, see words.h), up to kDepth words of the
// summed dimension at a time so that they stay in the second-level cache, and multiplies them with all rows
// of a. It reads a directly from memory or, if words differ from memory (widened, transposed, odd), through a
// small buffer of kStrip rows. Terms follow one another in the summed dimension. Every element is summed in
// the same order for all blocks and threads: depth by depth, each from zero, which is also more exact than
// one long sum.
#include "engine/cpu/kernels/products.h"

#include "engine/cpu/kernels/ahead.h"
#include "engine/cpu/kernels/coded.h"
#include "engine/cpu/kernels/few_rows.h"
#include "engine/cpu/kernels/parts.h"
#include "engine/cpu/kernels/tile.h"

namespace ft::cpu::FT_TARGET {
namespace {

constexpr i64 kPanels = kLanes == 16 ? 4 : 8;  // of a block, at most
constexpr i64 kStrip = 48;                     // rows of a at a time
constexpr i64 kStripPad = 16;                  // words; keeps rows out of each other's cache sets
constexpr i64 kBlockRows = 1056;               // of a block of kPanels panels; a multiple of kStrip
constexpr i64 kAheadWords = 32;                // between two steps of prefetching

struct Workspace {  // of one thread
  alignas(64) Word b[kPanels * kDepth * kTile];
  alignas(64) Word a[kStrip * (kDepth + (kStripPad + kLanes) * kMaxParts)];
  alignas(64) float sum[kPanels * kBlockRows * kTile];
};

struct Block {  // of y
  i64 row, rows, col, cols;
};

// Packs columns [col, col + cols) of the part's b to `to`, with rows of ld words.
template <class T>
void pack_right(Word* to, i64 ld, const Part& p, i64 col, i64 cols) {
  const ProductTerm& t = *p.term;
  const T* b = static_cast<const T*>(t.b);
  const i64 from = p.from * kPack<T>;
  if (is_coded(t))
    with_codes(t, [&](const auto& q) { pack_coded<T>(to, ld, q, t, from, elements<T>(p), col, cols); });
  else if (t.b_transposed)
    transpose(to, ld, b + col * t.ldb + from, t.ldb, cols, elements<T>(p));
  else
    interleave(to, ld, b + from * t.ldb + col, t.ldb, elements<T>(p), cols);
}

// True if a's words can be read directly from memory. Rows whose distance is a multiple of 4096 bytes share
// cache sets, and are packed.
template <class T>
bool readable_in_place(const ProductTerm& t) {
  const bool same_words = kPack<T> * static_cast<i64>(sizeof(T)) == 4 && t.k % kPack<T> == 0;
  return !t.a_transposed && same_words && t.lda * static_cast<i64>(sizeof(T)) % 4096 != 0;
}

// Sets the place of the words of rows [row, row + rows) of the part's a, after packing them to `to` if
// needed; returns the end of the written memory.
template <class T>
Word* pack_left(Word* to, Part& p, i64 row, i64 rows) {
  const ProductTerm& t = *p.term;
  const T* a = static_cast<const T*>(t.a);
  const i64 from = p.from * kPack<T>;
  if (readable_in_place<T>(t)) {
    p.a = reinterpret_cast<const std::byte*>(a + row * t.lda + from);
    p.row_bytes = t.lda * static_cast<i64>(sizeof(T));
    p.word_bytes = 4;
    return to;
  }
  p.a = reinterpret_cast<const std::byte*>(to);
  if (t.a_transposed) {
    interleave(to, kStrip, a + from * t.lda + row, t.lda, elements<T>(p), rows);
    p.row_bytes = 4;
    p.word_bytes = kStrip * 4;
    return to + p.words * kStrip;
  }
  const i64 ld = round_up(p.words, kLanes) + kStripPad;
  widen(to, ld, a + row * t.lda + from, t.lda, rows, elements<T>(p));
  p.row_bytes = ld * 4;
  p.word_bytes = 4;
  return to + ld * rows;
}

// Adds rows [row, row + rows) of the part's a to the memory to prefetch.
template <class T>
void add_left(Ahead& ahead, const Part& p, i64 row, i64 rows) {
  constexpr i64 kSize = sizeof(T);
  const ProductTerm& t = *p.term;
  const T* a = static_cast<const T*>(t.a);
  const i64 from = p.from * kPack<T>;
  if (t.a_transposed)
    ahead.add(a + from * t.lda + row, t.lda * kSize, elements<T>(p), rows * kSize);
  else
    ahead.add(a + row * t.lda + from, t.lda * kSize, rows, elements<T>(p) * kSize);
}
void add_result(Ahead& ahead, const ProductCall& call, i64 row, i64 rows, i64 col, i64 cols) {
  const i64 y_size = size_of(call.y_type), c_size = size_of(call.c_type);
  ahead.add(static_cast<std::byte*>(call.y) + (row * call.ldy + col) * y_size, call.ldy * y_size, rows,
            cols * y_size);
  if (call.c != nullptr && call.c != call.y && call.ldc != 0)
    ahead.add(static_cast<const std::byte*>(call.c) + (row * call.ldc + col) * c_size, call.ldc * c_size,
              rows, cols * c_size);
}

// sum (Rows, Vectors * kLanes) = or += the parts' products.
template <class T, int Rows, int Vectors>
void tile(float* sum, const Part* parts, i64 count, i64 row, const Word* b, bool add, Ahead& ahead) {
  constexpr i64 kWidth = Vectors * kLanes;
  Vec acc[Rows][Vectors];
#pragma GCC unroll 12
  for (int i = 0; i < Rows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < Vectors; ++j) {
      acc[i][j] = zero();
      __builtin_prefetch(sum + i * kWidth + j * kLanes, 1);
    }
  for (i64 p = 0; p < count; ++p) {
    const Part& t = parts[p];
    const std::byte* a = t.a + row * t.row_bytes;
    for (i64 k = 0; k < t.words; k += kAheadWords) {
      ahead.step();
      accumulate<T>(acc, a + k * t.word_bytes, t.row_bytes, t.word_bytes, b + (t.at + k) * kWidth, kWidth,
                    smaller(kAheadWords, t.words - k));
    }
  }
#pragma GCC unroll 12
  for (int i = 0; i < Rows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < Vectors; ++j) {
      float* s = sum + i * kWidth + j * kLanes;
      store(s, add ? load(s) + acc[i][j] : acc[i][j]);
    }
}
// Multiplies all rows of a strip with one panel.
template <class T, int Vectors>
void strip(float* sum, const Part* parts, i64 count, i64 rows, const Word* b, bool add, Ahead& ahead) {
  constexpr int kRows = tile_rows(Vectors);
  constexpr i64 kWidth = Vectors * kLanes;
  i64 i = 0;
  for (; i + kRows <= rows; i += kRows)
    tile<T, kRows, Vectors>(sum + i * kWidth, parts, count, i, b, add, ahead);
  for (; i + 4 <= rows; i += 4) tile<T, 4, Vectors>(sum + i * kWidth, parts, count, i, b, add, ahead);
  for (; i + 2 <= rows; i += 2) tile<T, 2, Vectors>(sum + i * kWidth, parts, count, i, b, add, ahead);
  for (; i < rows; ++i) tile<T, 1, Vectors>(sum + i * kWidth, parts, count, i, b, add, ahead);
}
template <class T>
void strip(i64 vectors, float* sum, const Part* parts, i64 count, i64 rows, const Word* b, bool add,
           Ahead& ahead) {
  if (vectors == 1) return strip<T, 1>(sum, parts, count, rows, b, add, ahead);
  if (vectors == 2) return strip<T, 2>(sum, parts, count, rows, b, add, ahead);
  if constexpr (kTileVectors == 4) {
    if (vectors == 3) return strip<T, 3>(sum, parts, count, rows, b, add, ahead);
    if (vectors == 4) return strip<T, 4>(sum, parts, count, rows, b, add, ahead);
  }
}

// y = alpha * sum + c for a (rows, cols) part at (row, col); sum's rows are ld apart.
template <class Y, class C>
void finish(const ProductCall& call, const float* sum, i64 ld, i64 row, i64 rows, i64 col, i64 cols) {
  const Vec alpha = splat(call.alpha);
  for (i64 i = 0; i < rows; ++i) {
    Y* y = static_cast<Y*>(call.y) + (row + i) * call.ldy + col;
    const C* c = call.c ? static_cast<const C*>(call.c) + (row + i) * call.ldc + col : nullptr;
    i64 j = 0;
    for (; j + kLanes <= cols; j += kLanes) {
      const Vec s = load(sum + i * ld + j);
      store(y + j, c ? fma(alpha, s, load(c + j)) : alpha * s);
    }
    if (const i64 n = cols - j; n > 0) {
      const Vec s = load(sum + i * ld + j);
      store(y + j, c ? fma(alpha, s, load(c + j, n)) : alpha * s, n);
    }
  }
}
// Does the same for a transposed y, for small results only.
template <class Y, class C>
void finish_transposed(const ProductCall& call, const float* sum, i64 ld, i64 row, i64 rows, i64 col,
                       i64 cols) {
  for (i64 j = 0; j < cols; ++j) {
    Y* y = static_cast<Y*>(call.y) + (col + j) * call.ldy + row;
    const C* c = call.c ? static_cast<const C*>(call.c) + (col + j) * call.ldc + row : nullptr;
    for (i64 i = 0; i < rows; ++i) {
      const float s = sum[i * ld + j];
      from_float(y[i], c ? __builtin_fmaf(call.alpha, s, to_float(c[i])) : call.alpha * s);
    }
  }
}
template <class Y, class C>
void finish_either(const ProductCall& call, const float* sum, i64 ld, i64 row, i64 rows, i64 col, i64 cols) {
  if (call.y_transposed) return finish_transposed<Y, C>(call, sum, ld, row, rows, col, cols);
  finish<Y, C>(call, sum, ld, row, rows, col, cols);
}
void finish(const ProductCall& call, const float* sum, i64 ld, i64 row, i64 rows, i64 col, i64 cols) {
  const auto as = [&](auto y, auto c) {
    finish_either<decltype(y), decltype(c)>(call, sum, ld, row, rows, col, cols);
  };
  const DType c = call.c ? call.c_type : DType::f32;
  if (call.y_type == DType::bf16) return c == DType::bf16 ? as(bf16{}, bf16{}) : as(bf16{}, float{});
  if (call.y_type == DType::f16) return c == DType::f16 ? as(f16{}, f16{}) : as(f16{}, float{});
  if (c == DType::bf16) return as(float{}, bf16{});
  if (c == DType::f16) return as(float{}, f16{});
  as(float{}, float{});
}

// Multiplies the block's rows with the parts' panels for one depth. first, last: among the block's depths.
template <class T>
void depth(const ProductCall& call, const Block& block, Part* parts, i64 count, i64 words, Workspace& w,
           bool first, bool last) {
  const i64 panels = ceil_div(block.cols, kTile);
  for (i64 n = 0; n < panels; ++n) {
    const i64 cols = smaller(kTile, block.cols - n * kTile), width = round_up(cols, kLanes);
    for (i64 p = 0; p < count; ++p)
      pack_right<T>(w.b + n * words * kTile + parts[p].at * width, width, parts[p], block.col + n * kTile,
                    cols);
  }
  for (i64 i = 0; i < block.rows; i += kStrip) {
    const i64 rows = smaller(kStrip, block.rows - i);
    Word* to = w.a;
    Ahead ahead;
    if (last && !call.y_transposed) add_result(ahead, call, block.row + i, rows, block.col, block.cols);
    for (i64 p = 0; p < count; ++p) {
      to = pack_left<T>(to, parts[p], block.row + i, rows);
      add_left<T>(ahead, parts[p], block.row + i + rows, smaller(kStrip, block.rows - i - rows));
    }
    ahead.divide(panels * ceil_div(rows, tile_rows(kTileVectors)) * ceil_div(words, kAheadWords));
    for (i64 n = 0; n < panels; ++n) {
      const i64 cols = smaller(kTile, block.cols - n * kTile), width = round_up(cols, kLanes);
      // Sums of a single depth are used immediately: the same few lines of cache serve all.
      float* sum = first && last ? w.sum : w.sum + (n * block.rows + i) * kTile;
      strip<WordType<T>>(width / kLanes, sum, parts, count, rows, w.b + n * words * kTile, !first, ahead);
      if (last) finish(call, sum, width, block.row + i, rows, block.col + n * kTile, cols);
    }
  }
}

// Computes the block's sums depth by depth.
template <class T>
void compute(const ProductCall& call, const Block& block, Workspace& w) {
  Depths<T> depths(call);
  Part parts[kMaxParts];
  do {
    const bool first = depths.at_start();
    const i64 count = depths.next(parts);
    const i64 words = count == 0 ? 0 : parts[count - 1].at + parts[count - 1].words;
    depth<T>(call, block, parts, count, words, w, first, depths.at_end());
  } while (!depths.at_end());
}

// Does the same for few rows: b's columns are packed into multiply order in registers, for as many depths at
// once as there is room for.
template <class T>
void compute_few(const ProductCall& call, const Block& block, Workspace& w) {
  constexpr i64 kParts = 8 * kMaxParts, kRoom = sizeof w.a / sizeof(Word);
  constexpr i64 kMost = kFewRows * (kDepth + (kStripPad + kLanes) * kMaxParts);  // of one depth
  const i64 ld = round_up(block.cols, kFewColumns);
  Depths<T> depths(call, step_of_depths<T>(call));
  Part parts[kParts];
  do {
    const bool add = !depths.at_start();
    i64 count = 0;
    Word* to = w.a;
    do {
      const i64 more = depths.next(parts + count);
      for (i64 p = count; p < count + more; ++p) to = pack_left<T>(to, parts[p], block.row, block.rows);
      count += more;
    } while (!depths.at_end() && count + kMaxParts <= kParts && to - w.a + kMost <= kRoom);
    few_rows<T>(w.sum, ld, {parts, count, block.rows, block.col, block.cols, add, call.any_order});
  } while (!depths.at_end());
  finish(call, w.sum, ld, block.row, block.rows, block.col, block.cols);
}

// Chooses the largest blocks that leave four for every thread: large ones amortise packing, many balance the
// threads. Rows amortise the packing of b, columns the packing of a, if a is packed.
struct Blocking {
  i64 panels, rows;
};
template <class T>
Blocking choose_blocking(const ProductCall& call, bool few) {
  constexpr i64 kMostOfFew = kPanels * kBlockRows / kFewRows;  // as many as there is room for sums
  if (few) return {smaller(kMostOfFew, larger(1, call.cols / (kTile * 4 * call.threads))), kFewRows};
  const bool decodes_b = has_codes(call);
  bool packs_a = false;
  for (i64 i = 0; i < call.count; ++i) packs_a = packs_a || !readable_in_place<T>(call.terms[i]);
  constexpr Blocking kPacked[] = {
      {kPanels, kBlockRows}, {kPanels / 2, kBlockRows}, {kPanels / 2, 528}, {1, 528}, {1, 288}, {1, 96}};
  constexpr i64 kTall = 2 * kBlockRows, kFew = kPanels / 4;
  constexpr Blocking kAsItLies[] = {
      {kPanels / 2, kTall}, {kFew, kTall}, {kFew, kBlockRows}, {1, 528}, {1, 288}, {1, 96}};
  for (const Blocking& b : packs_a ? kPacked : kAsItLies) {
    // Decoding a panel takes as long as multiplying some twenty rows, so each decoded panel serves some
    // hundreds of rows.
    if (decodes_b && b.rows < 528) break;
    const i64 down = ceil_div(call.rows, b.rows);
    if (call.threads == 1 || ceil_div(call.cols, b.panels * kTile) * down >= 4 * call.threads)
      return {b.panels, round_up(ceil_div(call.rows, down), kStrip)};  // blocks of equal size
  }
  return {1, decodes_b ? round_up(ceil_div(call.rows, ceil_div(call.rows, 528)), kStrip) : kStrip};
}

// True if y^T = sum of b^T a^T is cheaper. With few rows, packing b's columns pays off little, while b^T
// serves as a left operand directly. With few columns the same holds for a transposed a, the long matrix in
// an adapter's gradient.
bool better_transposed(const ProductCall& call) {
  bool few_rows = call.rows <= kLanes, few_cols = call.cols <= kTile && call.cols < call.rows;
  for (i64 i = 0; i < call.count; ++i) {
    const ProductTerm& t = call.terms[i];
    few_rows = few_rows && !t.a_transposed && t.b_transposed && !is_coded(t);
    few_cols = few_cols && t.a_transposed && !t.b_transposed && !is_coded(t);
  }
  return few_rows || few_cols;
}

template <class T>
void run_blocks(const ProductCall& call) {
  const bool few = is_few_rows(call);
  const Blocking size = choose_blocking<T>(call, few);
  const i64 across = ceil_div(call.cols, size.panels * kTile), down = ceil_div(call.rows, size.rows);
  auto* workspaces = reinterpret_cast<Workspace*>(call.workspace);
  share_out(*call.team, across * down, call.threads == 1, [&](i64 u, int thread) {
    const i64 row = u / across * size.rows, col = u % across * size.panels * kTile;
    const Block at{row, smaller(size.rows, call.rows - row), col,
                   smaller(size.panels * kTile, call.cols - col)};
    few ? compute_few<T>(call, at, workspaces[thread]) : compute<T>(call, at, workspaces[thread]);
  });
}
void run_blocks(const ProductCall& call) {
  if (call.operands == DType::bf16) return run_blocks<bf16>(call);
  if (call.operands == DType::f16) return run_blocks<f16>(call);
  run_blocks<float>(call);
}

void run(const ProductCall& call) {
  if (is_few_rows(call) || !better_transposed(call) || call.count > kMaxParts) return run_blocks(call);
  ProductTerm terms[kMaxParts];
  for (i64 i = 0; i < call.count; ++i) {
    const ProductTerm& t = call.terms[i];
    terms[i] = {t.b, t.ldb, !t.b_transposed, t.a, t.lda, !t.a_transposed, t.k};
  }
  ProductCall turned = call;
  turned.rows = call.cols;
  turned.cols = call.rows;
  turned.terms = terms;
  turned.y_transposed = true;
  run_blocks(turned);
}

i64 workspace_bytes(int threads) { return threads * static_cast<i64>(sizeof(Workspace)); }

template <class T>
double tile_out_of_cache(i64 repeats) {
  constexpr i64 kWords = 64;  // 16 KiB of b with AVX-512
  constexpr int kRows = tile_rows(kTileVectors);
  alignas(64) Word a[kRows * kWords] = {}, b[kWords * kTile] = {};
  Vec acc[kRows][kTileVectors];
  for (auto& row : acc)
    for (Vec& v : row) v = zero();
  for (i64 i = 0; i < repeats; ++i) {
    accumulate<T>(acc, reinterpret_cast<const std::byte*>(a), kWords * 4, 4, b, kTile, kWords);
    asm volatile("" ::: "memory");  // keeps the compiler from removing the work
  }
  Vec total = zero();
  for (const auto& row : acc)
    for (const Vec v : row) total = total + v;
  return 2.0 * static_cast<double>(repeats * kRows * kTile * kWords * kPack<T>) + sum(total);
}

double tile_out_of_cache(DType operands, i64 repeats) {
  return operands == DType::bf16 ? tile_out_of_cache<bf16>(repeats) : tile_out_of_cache<float>(repeats);
}

}  // namespace

extern const ProductKernels product_kernels;
const ProductKernels product_kernels{workspace_bytes, run, tile_out_of_cache};

}  // namespace ft::cpu::FT_TARGET
