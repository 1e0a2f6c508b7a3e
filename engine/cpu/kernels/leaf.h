// Everything that is neither a product nor attention: the table every target fills. See Ops for what each
// computes; arguments have been checked. Sums are taken in an order that depends on the shapes only.
#pragma once
#include <cstdint>

#include "engine/core/dtype.h"
#include "engine/cpu/team.h"
#include "engine/ops/math.h"

namespace ft::cpu {

// A Tensor without its functions, which kernels must not use: they could be merged across targets.
struct View {
  void* data;  // null: not wanted
  DType type;
  std::int64_t rows, cols, stride;  // stride in elements
};

struct LossCall {
  float* loss;
  View logits;
  const std::int32_t* targets;
  float scale, smoothing;
  bool gradient;
};

struct RopeCall {
  View x;
  const float *cos, *sin;  // (positions, head_width / 2)
  const std::int32_t* positions;
  std::int64_t head_width;
  float sign;
};

struct LeafKernels {
  void (*fill)(const View& y, float value, Team& team);
  void (*add)(const View& y, const View& x, Team& team);
  void (*cast)(const View& y, const View& x, Team& team);
  void (*dropout)(const View& y, const View& x, float p, std::uint64_t key, Team& team);
  void (*gated)(Activation f, const View& y, const View& gate, const View& up, Team& team);
  void (*gated_grad)(Activation f, const View& dgate, const View& dup, const View& dy, const View& gate,
                     const View& up, Team& team);
  void (*column_sums)(float* y, const View& x, Team& team);
  void (*rms_norm)(const View& y, float* rstd, const View& x, const void* w, float eps, Team& team);
  void (*rms_norm_grad)(const View& dx, float* dw, const View& dy, const View& x, const void* w,
                        const float* rstd, Team& team);
  void (*rope)(const RopeCall& call, Team& team);
  void (*embedding_grad)(const View& dtable, const std::int32_t* ids, const View& dy, Team& team);
  void (*cross_entropy)(const LossCall& call, Team& team);
  double (*sum)(const float* x, std::int64_t n, Team& team);
  double (*sum_squares)(const float* x, std::int64_t n, Team& team);
  void (*adamw)(float* master, float* m, float* v, const float* grad, std::int64_t n,
                const math::AdamWStep& how, Team& team);
  void (*sgd)(float* master, const float* grad, std::int64_t n, float lr, float decay, float grad_scale,
              Team& team);
};

}  // namespace ft::cpu
