// Ops on the CPU: checks arguments, hands them to the kernels of one target, and owns what they need beside.
// Work is done when a call returns. Results do not depend on the number of threads.
#pragma once
#include "engine/cpu/attention.h"
#include "engine/cpu/cores.h"
#include "engine/cpu/products.h"
#include "engine/cpu/target.h"
#include "engine/ops/ops.h"

namespace ft::cpu {

class CpuOps final : public Ops {
 public:
  explicit CpuOps(int threads = usable_cores(), Target target = best_target());
  // Kernels of a target that `Target` does not list, for tests.
  CpuOps(int threads, const Kernels& kernels);

  int threads() const { return team_.size(); }

  Device device() const override { return {}; }
  Buffer allocate(std::int64_t bytes) override;
  void copy(Tensor y, Tensor x) override;
  void upload(Tensor y, const void* host) override;
  void download(void* host, Tensor x) override;
  void synchronize() override {}
  std::int64_t workspace() const override {
    return products_.workspace_bytes() + attention_.workspace_bytes();
  }
  std::int64_t free_memory() const override;
  double peak_flops(DType) override;

  void fill(Tensor y, float value) override;
  void add(Tensor y, Tensor x) override;
  void cast(Tensor y, Tensor x) override;
  void dropout(Tensor y, Tensor x, float p, Random random) override;
  void gated(Activation f, Tensor y, Tensor gate, Tensor up) override;
  void gated_grad(Activation f, Tensor dgate, Tensor dup, Tensor dy, Tensor gate, Tensor up) override;
  void products(Tensor y, std::span<const Term> terms, float alpha, Tensor c) override;
  void column_sums(Tensor y, Tensor x) override;
  void rms_norm(Tensor y, Tensor rstd, Tensor x, Tensor w, float eps) override;
  void rms_norm_grad(Tensor dx, Tensor dw, Tensor dy, Tensor x, Tensor w, Tensor rstd) override;
  void rope(Tensor x, Tensor cos, Tensor sin, Tensor positions, std::int64_t head_width, float sign) override;
  void attention(Tensor y, Tensor lse, Tensor q, Tensor k, Tensor v, Heads heads, const Mask& mask,
                 const Scores& scores) override;
  void attention_grad(Tensor dq, Tensor dk, Tensor dv, Tensor dbias, Tensor dy, Tensor y, Tensor lse,
                      Tensor q, Tensor k, Tensor v, Heads heads, const Mask& mask,
                      const Scores& scores) override;
  void attention_ranges(Tensor y, Tensor q, Tensor k, Tensor v, Heads heads, const KeyRanges& ranges,
                        const Scores& scores) override;
  void embedding(Tensor y, Tensor ids, Tensor table) override;
  void embedding_grad(Tensor dtable, Tensor ids, Tensor dy) override;
  void gather_rows(Tensor y, Tensor x, Tensor rows) override;
  void scatter_rows(Tensor y, Tensor x, Tensor rows) override;
  void cross_entropy(Tensor loss, Tensor logits, Tensor targets, const CrossEntropy& how) override;
  void sum(Tensor y, Tensor x) override;
  void sum_squares(Tensor y, Tensor x) override;
  void adamw(Tensor master, Tensor m, Tensor v, Tensor grad, const AdamW& how) override;
  void sgd(Tensor master, Tensor grad, float lr, float decay, float grad_scale) override;

 private:
  Team team_;
  const LeafKernels& leaf_;
  Products products_;
  Attention attention_;
};

}  // namespace ft::cpu
