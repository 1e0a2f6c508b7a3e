// The shapes and types each computation of Ops takes. Every implementation checks its arguments here, so that
// what runs on NullOps also runs on the CPU and on CUDA. A violation is ours, not the user's: InternalError.
// What lies in memory (ids, positions, targets) is checked by the implementations that can read it.
#pragma once
#include <span>

#include "engine/ops/ops.h"

namespace ft::check {

void copy(const Tensor& y, const Tensor& x);
void transfer(const Tensor& device);  // upload and download

void fill(const Tensor& y);
void add(const Tensor& y, const Tensor& x);
void cast(const Tensor& y, const Tensor& x);
void dropout(const Tensor& y, const Tensor& x, float p);
void gated(const Tensor& y, const Tensor& gate, const Tensor& up);
void gated_grad(const Tensor& dgate, const Tensor& dup, const Tensor& dy, const Tensor& gate,
                const Tensor& up);

void products(const Tensor& y, std::span<const Term> terms, const Tensor& c);
void column_sums(const Tensor& y, const Tensor& x);

void rms_norm(const Tensor& y, const Tensor& rstd, const Tensor& x, const Tensor& w);
void rms_norm_grad(const Tensor& dx, const Tensor& dw, const Tensor& dy, const Tensor& x, const Tensor& w,
                   const Tensor& rstd);
void rope(const Tensor& x, const Tensor& cos, const Tensor& sin, const Tensor& positions,
          std::int64_t head_width);
void attention(const Tensor& y, const Tensor& lse, const Tensor& q, const Tensor& k, const Tensor& v,
               const Heads& heads, const Mask& mask, const Scores& scores);
void attention_grad(const Tensor& dq, const Tensor& dk, const Tensor& dv, const Tensor& dbias,
                    const Tensor& dy, const Tensor& y, const Tensor& lse, const Tensor& q, const Tensor& k,
                    const Tensor& v, const Heads& heads, const Mask& mask, const Scores& scores);
void attention_ranges(const Tensor& y, const Tensor& q, const Tensor& k, const Tensor& v, const Heads& heads,
                      const KeyRanges& ranges, const Scores& scores);
void embedding(const Tensor& y, const Tensor& ids, const Tensor& table);
void embedding_grad(const Tensor& dtable, const Tensor& ids, const Tensor& dy);
void gather_rows(const Tensor& y, const Tensor& x, const Tensor& rows);
void scatter_rows(const Tensor& y, const Tensor& x, const Tensor& rows);
void cross_entropy(const Tensor& loss, const Tensor& logits, const Tensor& targets, const CrossEntropy& how);

void sum(const Tensor& y, const Tensor& x);  // and sum_squares
void adamw(const Tensor& master, const Tensor& m, const Tensor& v, const Tensor& grad, const AdamW& how);
void sgd(const Tensor& master, const Tensor& grad);

}  // namespace ft::check
