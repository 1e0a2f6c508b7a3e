// Products of a few rows with a matrix whose rows are summed over, y = x W^T: what generation is made of. W
// is read once from memory and is all the work, so nothing of it is packed: kLanes of its rows are turned
// round in registers, kLanes words at a time. Sums are taken in the order of products.cpp, bit by bit.
#pragma once
#include "engine/cpu/kernels/four_bit.h"
#include "engine/cpu/kernels/parts.h"
#include "engine/cpu/kernels/tile.h"

namespace ft::cpu::FT_TARGET {
namespace {

constexpr i64 kFewRows = 4;    // more of them pay for packing
constexpr i64 kFewGroups = 4;  // of kLanes columns: independent chains of sums
constexpr i64 kFewColumns = kFewGroups * kLanes;

inline bool is_few_rows(const ProductCall& call) {
  if (call.rows > kFewRows || call.y_transposed) return false;
  for (i64 i = 0; i < call.count; ++i)
    if (call.terms[i].a_transposed || !call.terms[i].b_transposed) return false;
  return true;
}

struct FewRows {
  const Part* parts;
  i64 count, rows, col, cols;
  bool add;  // to the sums that are there
};

// r[k] lane i: word k of row i of w.
template <class T>
inline void turned(WordVec (&r)[kLanes], const T* w, i64 ld) {
  if constexpr (kLanes == 8) {
    load_turned(r, w, ld);
  } else {
    for (int i = 0; i < kLanes; ++i) r[i] = load_row(w + i * ld);
    transpose_in_registers(r);
  }
}
// The same at an edge: of `rows` rows and `count` elements.
template <class T>
inline void turned(WordVec (&r)[kLanes], const T* w, i64 ld, i64 rows, i64 count) {
  for (int i = 0; i < kLanes; ++i) r[i] = i < rows ? load_row(w + i * ld, count) : as_words(zero());
  transpose_in_registers(r);
}

// x of a few rows: word (r, k) at data + r * row + k * step bytes.
struct Left {
  const std::byte* data;
  i64 row, step;
};

template <class T, int Rows>
inline void multiply_turned(Vec (&acc)[Rows], const Left& x, const WordVec (&w)[kLanes], i64 k, i64 words) {
  for (int j = 0; j < kLanes; ++j)
    for (int r = 0; r < Rows && j < words; ++r)
      acc[r] = multiply_add<T>(acc[r], splat_word(word_at(x.data + r * x.row + (k + j) * x.step)), w[j]);
}

// acc[g][r] += x w^T over `count` elements; row c of w, of which there are `cols`, belongs to lane c % kLanes
// of group c / kLanes.
template <class T, int Rows, int Groups>
inline void add_few(Vec (&acc)[Groups][Rows], const Left& x, const T* w, i64 ld, i64 cols, i64 count) {
  constexpr i64 kStep = kLanes * kPack<T>, kLine = 64 / sizeof(T);
  WordVec t[kLanes];
  i64 k = 0;
  // Whole cache lines at a time: rows a multiple of 4096 bytes apart push each other out of the cache.
  for (; cols >= Groups * kLanes && k + kLine <= count; k += kLine) {
#pragma GCC unroll 4
    for (int g = 0; g < Groups; ++g) {
      const T* from = w + g * kLanes * ld + k;
      for (int i = 0; i < kLanes; ++i) __builtin_prefetch(from + (Groups * kLanes + i) * ld, 0, 2);
      for (i64 part = 0; part < kLine; part += kStep) {
        turned(t, from + part, ld);
        multiply_turned<T>(acc[g], x, t, (k + part) / kPack<T>, kLanes);
      }
    }
  }
  for (; k < count; k += kStep)
    for (int g = 0; g < Groups; ++g) {
      turned(t, w + g * kLanes * ld + k, ld, cols - g * kLanes, count - k);
      multiply_turned<T>(acc[g], x, t, k / kPack<T>, ceil_div(count - k, kPack<T>));
    }
}

// The same with rows [col, col + cols) of a part's b.
template <class T, int Rows, int Groups>
inline void add_part(Vec (&acc)[Groups][Rows], const Part& p, i64 col, i64 cols) {
  const ProductTerm& t = *p.term;
  const i64 from = p.from * kPack<T>, count = elements<T>(p);
  const Left x{p.a, p.row_bytes, p.word_bytes};
  if (!t.four_bit) {
    const T* w = static_cast<const T*>(t.b) + col * t.ldb + from;
    return add_few<T>(acc, x, w, t.ldb, cols, count);
  }
  constexpr i64 kStep = 8 * kLanes;  // elements decoded at a time: whole vectors, whole words
  alignas(64) T dense[Groups * kLanes * kStep];
  for (i64 k = 0; k < count; k += kStep) {
    const i64 n = smaller(kStep, count - k);
    for (i64 c = 0; c < cols; ++c) decode(dense + c * kStep, *t.four_bit, (col + c) * t.ldb + from + k, n);
    add_few<T>(acc, {x.data + k / kPack<T> * x.step, x.row, x.step}, dense, kStep, cols, n);
  }
}

template <class T, int Rows, int Groups>
void few_rows(float* sum, i64 ld, const FewRows& f) {
  constexpr i64 kColumns = Groups * kLanes;
  for (i64 c = 0; c < f.cols; c += kColumns) {
    Vec acc[Groups][Rows];
    for (auto& group : acc)
      for (Vec& v : group) v = zero();
    for (i64 p = 0; p < f.count; ++p) add_part<T>(acc, f.parts[p], f.col + c, smaller(kColumns, f.cols - c));
    for (int g = 0; g < Groups; ++g)
      for (int r = 0; r < Rows; ++r) {
        float* s = sum + r * ld + c + g * kLanes;
        store(s, f.add ? load(s) + acc[g][r] : acc[g][r]);
      }
  }
}

// sum (rows, cols), ld apart, a multiple of kFewColumns = or += the parts' products
template <class T>
void few_rows(float* sum, i64 ld, const FewRows& f) {
  if (f.rows == 1) return few_rows<T, 1, kFewGroups>(sum, ld, f);
  if (f.rows == 2) return few_rows<T, 2, kFewGroups / 2>(sum, ld, f);
  if (f.rows == 3) return few_rows<T, 3, kFewGroups / 2>(sum, ld, f);
  few_rows<T, 4, kFewGroups / 2>(sum, ld, f);
}

}  // namespace
}  // namespace ft::cpu::FT_TARGET
