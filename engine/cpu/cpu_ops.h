// Ops on the CPU: gives operations to the kernels of one target, and owns the workspaces and threads that
// they need. Work is done when a call returns. Results do not depend on the number of threads.
#pragma once
#include "engine/cpu/attention.h"
#include "engine/cpu/cores.h"
#include "engine/cpu/fp8_rows.h"
#include "engine/cpu/products.h"
#include "engine/cpu/target.h"
#include "engine/ops/ops.h"

namespace ft::cpu {

class CpuOps final : public OpsOf<CpuOps> {
 public:
  explicit CpuOps(int threads = usable_cores(), Target target = best_target());
  explicit CpuOps(Sums);
  // Uses kernels of a target that `Target` does not list, for tests.
  CpuOps(int threads, const Kernels& kernels, Sums = Sums::in_one_order);
  ~CpuOps() override;

  int threads() const { return team_.size(); }

  Device device() const override { return {}; }
  Buffer allocate(std::int64_t bytes) override;
  void copy(Tensor y, Tensor x) override;
  void upload(Tensor y, const void* host) override;
  void download(void* host, Tensor x) override;
  void synchronize() override {}
  std::int64_t workspace() const override {
    return products_.workspace_bytes() + fp8_rows_.workspace_bytes() + attention_.workspace_bytes();
  }
  void reserve_dense(std::int64_t bytes) override { fp8_rows_.reserve(bytes); }
  std::int64_t free_memory() const override;
  double peak_flops(DType) override;

 private:
  friend OpsOf<CpuOps>;
  template <class Op>
  void compute(const Op& op);
  // Operations that are not leaf kernels.
  void own(const op::Products& op) { Fp8RowProducts::has_rows(op) ? fp8_rows_.run(op) : products_.run(op); }
  void own(const op::NarrowGrad& op) {
    const Term du[] = {op.of_du()}, db[] = {op.of_db()};
    products_.run({.y = op.du, .terms = du, .alpha = op.alpha});
    products_.run({.y = op.db, .terms = db, .c = op.db});
  }
  void own(const op::Attention& op) { attention_.forward(op); }
  void own(const op::AttentionGrad& op) { attention_.backward(op); }
  void own(const op::AttentionRanges& op) { attention_.ranges(op); }
  void own(const op::Embedding& op);
  void own(const op::GatherRows& op);
  void own(const op::ScatterRows& op);

  Team team_;
  const LeafKernels& leaf_;
  Products products_;
  Fp8RowProducts fp8_rows_;
  Attention attention_;
};

}  // namespace ft::cpu
