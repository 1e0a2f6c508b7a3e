#include "engine/ops/check.h"

namespace ft::check {
namespace {

bool is_float(DType t) { return t == DType::f32 || t == DType::bf16 || t == DType::f16; }
bool is_float(const Tensor& t) { return is_float(t.dtype); }
bool same_size(const Tensor& a, const Tensor& b) { return a.rows() == b.rows() && a.cols() == b.cols(); }
bool alike(const Tensor& a, const Tensor& b) { return same_size(a, b) && a.dtype == b.dtype; }
// A dense vector of n elements, whatever its rank.
bool vector(const Tensor& t, std::int64_t n, DType type) {
  return t.dtype == type && t.numel() == n && t.dense();
}
// A matrix in 4 bits with all that belongs to it.
void four_bit(const FourBitMatrix& m) {
  require(m.shape.rank == 2 && is_four_bit_block(m.form.block), "products: not a matrix in 4-bit blocks");
  const std::int64_t n = m.shape.numel(), blocks = m.form.blocks(n);
  require(vector(m.codes, (n + 1) / 2, DType::u8), "products: not two 4-bit codes a byte");
  require(vector(m.absmax, blocks, m.form.nested ? DType::u8 : DType::f32),
          "products: not one absmax a block");
  require(
      !m.form.nested || (vector(m.nested_absmax, (blocks + kNestedBlock - 1) / kNestedBlock, DType::f32) &&
                         vector(m.nested_offset, 1, DType::f32)),
      "products: not the scales of 8-bit absmax");
}
void grouped(const Heads& heads) {
  require(heads.query > 0 && heads.key_value > 0 && heads.width > 0 && heads.query % heads.key_value == 0,
          "attention: the query heads are not a multiple of the key heads");
}
// Starts of sequences that cover `rows` rows.
bool cover(std::span<const std::int32_t> starts, std::int64_t rows) {
  return !starts.empty() && starts.front() == 0 && starts.back() == rows;
}
void scored(const Scores& s, const Tensor& q, const Heads& heads) {
  require(!s.bias || (s.bias.dtype == q.dtype && s.bias.cols() == heads.query && s.bias.rows() % 2 == 1),
          "attention: the bias is not (2 reach + 1, H)");
  require(s.scale > 0 && 0 <= s.dropout && s.dropout < 1, "attention: scale or dropout is out of range");
}
bool vector_if_there(const Tensor& t, std::int64_t n, DType type) { return !t || vector(t, n, type); }

}  // namespace

void copy(const Tensor& y, const Tensor& x) { require(alike(y, x), "copy: y and x differ"); }
void transfer(const Tensor& device) { require(device.dense(), "upload, download: the tensor is not dense"); }

void fill(const Tensor& y) { require(is_float(y), "fill: y is not f32, bf16 or f16"); }

void add(const Tensor& y, const Tensor& x) {
  require(is_float(y) && is_float(x), "add: y or x is not f32, bf16 or f16");
  require(same_size(y, x), "add: y and x differ in shape");
}

void cast(const Tensor& y, const Tensor& x) {
  require(is_float(y) && is_float(x), "cast: y or x is not f32, bf16 or f16");
  require(same_size(y, x), "cast: y and x differ in shape");
}

void dropout(const Tensor& y, const Tensor& x, float p) {
  require(is_float(y) && alike(y, x), "dropout: y and x differ");
  require(0 <= p && p < 1, "dropout: p is not in [0, 1)");
}

void gated(const Tensor& y, const Tensor& gate, const Tensor& up) {
  require(is_float(y) && alike(y, gate) && (!up || alike(y, up)), "gated: y, gate and up differ");
}

void gated_grad(const Tensor& dgate, const Tensor& dup, const Tensor& dy, const Tensor& gate,
                const Tensor& up) {
  gated(dy, gate, up);
  require(alike(dgate, dy) && (dup ? up && alike(dup, dy) : !up), "gated_grad: dgate, dup and dy differ");
}

void products(const Tensor& y, std::span<const Term> terms, const Tensor& c) {
  require(!terms.empty() && is_float(y), "products: no terms, or y is not f32, bf16 or f16");
  const DType type = terms[0].a.dtype;
  require(is_float(type), "products: operands are not f32, bf16 or f16");
  require(y.dtype == type || y.dtype == DType::f32, "products: y is neither f32 nor of the operands' type");
  for (const Term& t : terms) {
    require(t.a.dtype == type && (t.four_bit ? !t.b : t.b.dtype == type),
            "products: operands differ in type");
    if (t.four_bit) four_bit(t.four_bit);
    const bool ta = t.ta == Trans::yes, tb = t.tb == Trans::yes;
    require((ta ? t.a.cols() : t.a.rows()) == y.rows(), "products: op(a) has not the rows of y");
    require((tb ? t.b_rows() : t.b_cols()) == y.cols(), "products: op(b) has not the columns of y");
    require((ta ? t.a.rows() : t.a.cols()) == (tb ? t.b_cols() : t.b_rows()),
            "products: op(a) and op(b) differ in the dimension that is summed");
  }
  if (!c) return;
  if (c.shape.rank == 1) {
    require(c.cols() == y.cols(), "products: the bias has not the columns of y");
    require(c.dtype == y.dtype || c.dtype == type, "products: the bias has another type");
  } else {
    require(alike(c, y), "products: c and y differ");
  }
}

void column_sums(const Tensor& y, const Tensor& x) {
  require(is_float(x) && vector(y, x.cols(), DType::f32), "column_sums: y is not one f32 for every column");
}

void rms_norm(const Tensor& y, const Tensor& rstd, const Tensor& x, const Tensor& w) {
  require(is_float(x) && alike(y, x), "rms_norm: y and x differ");
  require(vector(w, x.cols(), x.dtype), "rms_norm: w is not one element for every column");
  require(vector(rstd, x.rows(), DType::f32), "rms_norm: rstd is not one f32 for every row");
}

void rms_norm_grad(const Tensor& dx, const Tensor& dw, const Tensor& dy, const Tensor& x, const Tensor& w,
                   const Tensor& rstd) {
  rms_norm(dy, rstd, x, w);
  require(!dx || alike(dx, x), "rms_norm_grad: dx and x differ");
  require(vector_if_there(dw, x.cols(), DType::f32), "rms_norm_grad: dw is not one f32 for every column");
}

void rope(const Tensor& x, const Tensor& cos, const Tensor& sin, const Tensor& positions,
          std::int64_t head_width) {
  require(is_float(x) && head_width > 0 && head_width % 2 == 0, "rope: the heads' width is odd");
  require(x.cols() % head_width == 0, "rope: the columns are not whole heads");
  require(alike(cos, sin) && cos.dtype == DType::f32 && cos.dense() && sin.dense() &&
              cos.cols() * 2 == head_width,
          "rope: cos and sin are not (positions, D / 2) f32");
  require(vector(positions, x.rows(), DType::i32), "rope: positions is not one i32 for every row");
}

void attention(const Tensor& y, const Tensor& lse, const Tensor& q, const Tensor& k, const Tensor& v,
               const Heads& heads, const Mask& mask, const Scores& scores) {
  grouped(heads);
  scored(scores, q, heads);
  const std::span<const std::int32_t> starts = mask.starts, key_starts = mask.starts_of_keys();
  require(is_float(q) && q.cols() == heads.query * heads.width && alike(y, q),
          "attention: q or y is not (rows, H D)");
  require(k.dtype == q.dtype && k.cols() == heads.key_value * heads.width && alike(v, k),
          "attention: k or v is not (key rows, KV D)");
  require(vector(lse, heads.query * q.rows(), DType::f32), "attention: lse is not (H, rows) f32");
  require(mask.window >= 0 && cover(starts, q.rows()) && cover(key_starts, k.rows()) &&
              starts.size() == key_starts.size(),
          "attention: the sequences do not cover the rows");
  require(mask.key_starts.empty() || (!mask.causal && mask.window == 0 && !scores.bias),
          "attention: keys of other tokens have no places beside the queries'");
  for (std::size_t i = 1; i < starts.size(); ++i) {
    require(starts[i - 1] <= starts[i] && key_starts[i - 1] <= key_starts[i],
            "attention: the sequences' starts are not ascending");
    require(starts[i - 1] == starts[i] || key_starts[i - 1] < key_starts[i],
            "attention: queries without any key");
  }
}

void attention_grad(const Tensor& dq, const Tensor& dk, const Tensor& dv, const Tensor& dbias,
                    const Tensor& dy, const Tensor& y, const Tensor& lse, const Tensor& q, const Tensor& k,
                    const Tensor& v, const Heads& heads, const Mask& mask, const Scores& scores) {
  attention(y, lse, q, k, v, heads, mask, scores);
  require(!dbias || (scores.bias && dbias.dtype == DType::f32 && same_size(dbias, scores.bias)),
          "attention_grad: dbias is not the bias' size in f32");
  require(alike(dq, q) && alike(dk, k) && alike(dv, v) && alike(dy, y),
          "attention_grad: a gradient differs from its tensor");
}

void attention_ranges(const Tensor& y, const Tensor& q, const Tensor& k, const Tensor& v, const Heads& heads,
                      const KeyRanges& ranges, const Scores& scores) {
  grouped(heads);
  scored(scores, q, heads);
  require(scores.dropout == 0, "attention_ranges: no dropout in generation");
  require(is_float(q) && q.cols() == heads.query * heads.width && alike(y, q),
          "attention_ranges: q or y is not (rows, H D)");
  require(k.dtype == q.dtype && k.cols() == heads.key_value * heads.width && alike(v, k),
          "attention_ranges: k or v is not (keys, KV D)");
  require(vector(ranges.first, q.rows(), DType::i32) && vector(ranges.count, q.rows(), DType::i32) &&
              ranges.window >= 0,
          "attention_ranges: first and count are not one i32 for every row");
}

void embedding(const Tensor& y, const Tensor& ids, const Tensor& table) {
  require(is_float(y) && y.dtype == table.dtype && y.cols() == table.cols(), "embedding: y and table differ");
  require(vector(ids, y.rows(), DType::i32), "embedding: ids is not one i32 for every row");
}

void embedding_grad(const Tensor& dtable, const Tensor& ids, const Tensor& dy) {
  require(is_float(dy) && dtable.dtype == DType::f32 && dtable.cols() == dy.cols(),
          "embedding_grad: dtable is not (V, C) f32");
  require(vector(ids, dy.rows(), DType::i32), "embedding_grad: ids is not one i32 for every row");
}

void gather_rows(const Tensor& y, const Tensor& x, const Tensor& rows) {
  require(y.dtype == x.dtype && y.cols() == x.cols(), "gather_rows: y and x differ in type or columns");
  require(vector(rows, y.rows(), DType::i32), "gather_rows: rows is not one i32 for every row of y");
}

void scatter_rows(const Tensor& y, const Tensor& x, const Tensor& rows) {
  require(y.dtype == x.dtype && y.cols() == x.cols(), "scatter_rows: y and x differ in type or columns");
  require(vector(rows, x.rows(), DType::i32), "scatter_rows: rows is not one i32 for every row of x");
}

void cross_entropy(const Tensor& loss, const Tensor& logits, const Tensor& targets, const CrossEntropy& how) {
  require(is_float(logits) && logits.cols() > 0, "cross_entropy: logits are not f32, bf16 or f16");
  require(vector(loss, logits.rows(), DType::f32), "cross_entropy: loss is not one f32 for every row");
  require(vector(targets, logits.rows(), DType::i32), "cross_entropy: targets is not one i32 for every row");
  require(0 <= how.smoothing && how.smoothing <= 1, "cross_entropy: smoothing is not in [0, 1]");
}

void sum(const Tensor& y, const Tensor& x) {
  require(vector(y, 1, DType::f64), "sum, sum_squares: y is not one f64");
  require(x.dtype == DType::f32 && x.dense(), "sum, sum_squares: x is not dense f32");
}

void adamw(const Tensor& master, const Tensor& m, const Tensor& v, const Tensor& grad, const AdamW& how) {
  const std::int64_t n = master.numel();
  require(vector(master, n, DType::f32) && vector(m, n, DType::f32) && vector(v, n, DType::f32) &&
              vector(grad, n, DType::f32),
          "adamw: master, m, v and grad are not dense f32 of one size");
  require(how.step >= 1, "adamw: steps count from 1");
}

void sgd(const Tensor& master, const Tensor& grad) {
  const std::int64_t n = master.numel();
  require(vector(master, n, DType::f32) && vector(grad, n, DType::f32),
          "sgd: master and grad are not dense f32 of one size");
}

}  // namespace ft::check
