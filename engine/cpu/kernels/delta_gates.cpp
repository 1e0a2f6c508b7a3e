// The gates of the delta rule and their gradients. They are a few numbers for each token.
#include "engine/cpu/kernels/leaf_functions.h"
#include "engine/cpu/kernels/loops.h"

namespace ft::cpu::FT_TARGET {
namespace {

template <class T>
void gates(const op::DeltaGates& op, Team& team) {
  const View g = view_of(op.g), beta = view_of(op.beta), a = view_of(op.a), b = view_of(op.b);
  const float *a_log = data_of<const float>(op.a_log), *bias = data_of<const float>(op.dt_bias);
  each_row(a.rows, a.cols, team, [&](i64 r) {
    for (i64 h = 0; h < a.cols; ++h) {
      at<float>(g, r)[h] = -__builtin_expf(a_log[h]) * math::softplus(to_float(at<T>(a, r)[h]) + bias[h]);
      at<float>(beta, r)[h] = math::sigmoid(to_float(at<T>(b, r)[h]));
    }
  });
}

// An item is a head; its rows are added up in order.
template <class T>
void gates_back(const op::DeltaGatesGrad& op, Team& team) {
  const View da = view_of(op.da), db = view_of(op.db), a = view_of(op.a), b = view_of(op.b);
  const View dg = view_of(op.dg), dbeta = view_of(op.dbeta);
  const float *a_log = data_of<const float>(op.a_log), *bias = data_of<const float>(op.dt_bias);
  float *da_log = data_of<float>(op.da_log), *dbias = data_of<float>(op.ddt_bias);
  each_item(a.cols, a.rows * a.cols, team, [&](i64 h) {
    const float slope = -__builtin_expf(a_log[h]);
    double to_log = 0, to_bias = 0;
    for (i64 r = 0; r < a.rows; ++r) {
      const float x = to_float(at<T>(a, r)[h]) + bias[h], d = at<float>(dg, r)[h];
      const float beta = math::sigmoid(to_float(at<T>(b, r)[h])), own = d * slope * math::sigmoid(x);
      from_float(at<T>(da, r)[h], own);
      from_float(at<T>(db, r)[h], at<float>(dbeta, r)[h] * beta * (1 - beta));
      to_bias += own;
      to_log += d * slope * math::softplus(x);
    }
    if (da_log) da_log[h] += static_cast<float>(to_log);
    if (dbias) dbias[h] += static_cast<float>(to_bias);
  });
}

}  // namespace

void compute(const op::DeltaGates& op, Team& team) {
  with_float(op.a.dtype, [&](auto t) { gates<decltype(t)>(op, team); });
}

void compute(const op::DeltaGatesGrad& op, Team& team) {
  with_float(op.a.dtype, [&](auto t) { gates_back<decltype(t)>(op, team); });
}

}  // namespace ft::cpu::FT_TARGET
