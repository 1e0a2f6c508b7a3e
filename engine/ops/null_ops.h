// Computes nothing. A step run on NullOps takes and gives back memory exactly as a real one does, which is
// how arenas are sized before step 1 and how `ft plan` knows what a run would need. Arguments are checked as
// everywhere; memory has addresses (so that no tensor looks empty) but must not be read or written.
#pragma once
#include "engine/ops/check.h"
#include "engine/ops/ops.h"

namespace ft {

class NullOps final : public Ops {
 public:
  explicit NullOps(Device device = {}) : device_(device) {}

  Device device() const override { return device_; }
  // Any size fits; the bytes asked for so far are added up.
  Buffer allocate(std::int64_t bytes) override {
    require(bytes >= 0, "allocate: a negative size");
    allocated_ += bytes;
    return {reinterpret_cast<std::byte*>(kAddress), [](std::byte*) {}};
  }
  std::int64_t allocated() const { return allocated_; }

  void copy(Tensor y, Tensor x) override { check::copy(y, x); }
  void upload(Tensor y, const void*) override { check::transfer(y); }
  void download(void*, Tensor x) override { check::transfer(x); }
  void synchronize() override {}

  void fill(Tensor y, float) override { check::fill(y); }
  void add(Tensor y, Tensor x) override { check::add(y, x); }
  void cast(Tensor y, Tensor x) override { check::cast(y, x); }
  void dropout(Tensor y, Tensor x, float p, Random) override { check::dropout(y, x, p); }
  void gated(Activation, Tensor y, Tensor gate, Tensor up) override { check::gated(y, gate, up); }
  void gated_grad(Activation, Tensor dgate, Tensor dup, Tensor dy, Tensor gate, Tensor up) override {
    check::gated_grad(dgate, dup, dy, gate, up);
  }

  void products(Tensor y, std::span<const Term> terms, float, Tensor c) override {
    check::products(y, terms, c);
  }
  void column_sums(Tensor y, Tensor x) override { check::column_sums(y, x); }

  void rms_norm(Tensor y, Tensor rstd, Tensor x, Tensor w, float) override { check::rms_norm(y, rstd, x, w); }
  void rms_norm_grad(Tensor dx, Tensor dw, Tensor dy, Tensor x, Tensor w, Tensor rstd) override {
    check::rms_norm_grad(dx, dw, dy, x, w, rstd);
  }
  void rope(Tensor x, Tensor cos, Tensor sin, Tensor positions, std::int64_t head_width, float) override {
    check::rope(x, cos, sin, positions, head_width);
  }
  void attention(Tensor y, Tensor lse, Tensor q, Tensor k, Tensor v, Heads heads, const Mask& mask,
                 const Scores& scores) override {
    check::attention(y, lse, q, k, v, heads, mask, scores);
  }
  void attention_grad(Tensor dq, Tensor dk, Tensor dv, Tensor dbias, Tensor dy, Tensor y, Tensor lse,
                      Tensor q, Tensor k, Tensor v, Heads heads, const Mask& mask,
                      const Scores& scores) override {
    check::attention_grad(dq, dk, dv, dbias, dy, y, lse, q, k, v, heads, mask, scores);
  }
  void attention_ranges(Tensor y, Tensor q, Tensor k, Tensor v, Heads heads, const KeyRanges& ranges,
                        const Scores& scores) override {
    check::attention_ranges(y, q, k, v, heads, ranges, scores);
  }
  void embedding(Tensor y, Tensor ids, Tensor table) override { check::embedding(y, ids, table); }
  void embedding_grad(Tensor dtable, Tensor ids, Tensor dy) override {
    check::embedding_grad(dtable, ids, dy);
  }
  void gather_rows(Tensor y, Tensor x, Tensor rows) override { check::gather_rows(y, x, rows); }
  void scatter_rows(Tensor y, Tensor x, Tensor rows) override { check::scatter_rows(y, x, rows); }
  void cross_entropy(Tensor loss, Tensor logits, Tensor targets, const CrossEntropy& how) override {
    check::cross_entropy(loss, logits, targets, how);
  }

  void sum(Tensor y, Tensor x) override { check::sum(y, x); }
  void sum_squares(Tensor y, Tensor x) override { check::sum(y, x); }
  void adamw(Tensor master, Tensor m, Tensor v, Tensor grad, const AdamW& how) override {
    check::adamw(master, m, v, grad, how);
  }
  void sgd(Tensor master, Tensor grad, float, float, float) override { check::sgd(master, grad); }

 private:
  static constexpr std::uintptr_t kAddress = std::uintptr_t{1} << 20;  // aligned, never dereferenced

  Device device_;
  std::int64_t allocated_ = 0;
};

}  // namespace ft
