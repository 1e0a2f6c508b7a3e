#include "engine/cuda/gemm/gemm_plan.h"

#include <algorithm>
#include <array>
#include <span>

#include "engine/core/error.h"

namespace ft::cuda {
namespace {

// Allows a long sum to be split if its parts are added in f32 and in a fixed order.
constexpr auto kReduction = static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);

cudaDataType_t type_of(DType t) {
  if (t == DType::u8) return CUDA_R_8F_E4M3;
  return t == DType::bf16 ? CUDA_R_16BF : t == DType::f16 ? CUDA_R_16F : CUDA_R_32F;
}

// The largest power of two up to 256 that divides an address.
std::int64_t alignment(const Tensor& t) {
  const auto address = reinterpret_cast<std::uintptr_t>(t.data);
  std::int64_t a = 256;
  while (address % static_cast<std::uintptr_t>(a) != 0) a /= 2;
  return a;
}

}  // namespace

void check(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw UserError(Exit::hardware, str("cuBLASLt failed in ", what, ": status ", static_cast<int>(status)));
}

GemmKey key_of(const GemmCall& g) {
  const Tensor& c = g.c ? g.c : g.y;  // if c is not read, its layout is y's
  return {.m = g.y.rows(),
          .n = g.y.cols(),
          .k = g.transpose_a ? g.a.rows() : g.a.cols(),
          .transpose_a = g.transpose_a,
          .transpose_b = g.transpose_b,
          .lda = g.a.stride,
          .ldb = g.b.stride,
          .ldc = c.stride,
          .ldy = g.y.stride,
          .operands = g.a.dtype,
          .result = g.y.dtype,
          .align_a = alignment(g.a),
          .align_b = alignment(g.b),
          .align_c = alignment(c),
          .align_y = alignment(g.y),
          .fast_sums = g.fast_sums};
}

// cuBLASLt's matrices are column-major: in its terms y is y^T (n, m) = op(b)^T op(a)^T, so b is its A and a
// its B.
GemmPlan::GemmPlan(const GemmQueue& queue, const GemmKey& key) : queue_(queue), key_(key) {
  const CublasLt& lt = queue_.lt;
  check(lt.desc_create(&desc_, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate");
  const auto set = [&](cublasLtMatmulDescAttributes_t which, auto value) {
    check(lt.desc_set(desc_, which, &value, sizeof value), "cublasLtMatmulDescSetAttribute");
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, key.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_TRANSB, key.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  if (key.fp8()) {
    for (const auto which : {CUBLASLT_MATMUL_DESC_A_SCALE_MODE, CUBLASLT_MATMUL_DESC_B_SCALE_MODE})
      set(which, static_cast<std::int32_t>(CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F));
    set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, static_cast<std::int8_t>(key.fast_sums));
    // Proposals need pointers; each call sets its own.
    const auto* any = reinterpret_cast<const float*>(queue_.workspace);
    set_scales(any, any);
  }
  // Describes a row-major (rows, cols) matrix as a column-major (cols, rows) one.
  const auto layout = [&](cublasLtMatrixLayout_t& l, DType type, std::int64_t rows, std::int64_t cols,
                          std::int64_t stride) {
    check(lt.layout_create(&l, type_of(type), static_cast<std::uint64_t>(cols),
                           static_cast<std::uint64_t>(rows), std::max(stride, cols)),
          "cublasLtMatrixLayoutCreate");
  };
  const auto [m, n, k] = std::array{key.m, key.n, key.k};
  layout(a_, key.operands, key.transpose_b ? n : k, key.transpose_b ? k : n, key.ldb);
  layout(b_, key.operands, key.transpose_a ? k : m, key.transpose_a ? m : k, key.lda);
  layout(c_, key.result, m, n, key.ldc);
  layout(y_, key.result, m, n, key.ldy);
}

GemmPlan::~GemmPlan() {
  for (cublasLtMatrixLayout_t l : {a_, b_, c_, y_})
    if (l) queue_.lt.layout_destroy(l);
  if (desc_) queue_.lt.desc_destroy(desc_);
}

std::vector<cublasLtMatmulAlgo_t> GemmPlan::candidates(int most) const {
  const CublasLt& lt = queue_.lt;
  cublasLtMatmulPreference_t preference = nullptr;
  check(lt.preference_create(&preference), "cublasLtMatmulPreferenceCreate");
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t which, auto value) {
    check(lt.preference_set(preference, which, &value, sizeof value), "cublasLtMatmulPreferenceSetAttribute");
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(queue_.bytes));
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, kReduction);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, static_cast<std::uint32_t>(key_.align_b));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, static_cast<std::uint32_t>(key_.align_a));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, static_cast<std::uint32_t>(key_.align_c));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, static_cast<std::uint32_t>(key_.align_y));
  std::vector<cublasLtMatmulHeuristicResult_t> found(static_cast<std::size_t>(most));
  int count = 0;
  const cublasStatus_t status =
      lt.heuristic(queue_.handle, desc_, a_, b_, c_, y_, preference, most, found.data(), &count);
  lt.preference_destroy(preference);
  std::vector<cublasLtMatmulAlgo_t> algorithms;
  for (const auto& result : std::span(found).first(static_cast<std::size_t>(count)))
    if (result.state == CUBLAS_STATUS_SUCCESS) algorithms.push_back(result.algo);
  if (status != CUBLAS_STATUS_SUCCESS || algorithms.empty())
    throw UserError(
        Exit::hardware,
        str("cuBLASLt has no product of ", key_.m, " x ", key_.k, " by ", key_.k, " x ", key_.n,
            key_.fp8() ? " in FP8 with a scale for each row" : " of this type", " on this GPU (status ",
            static_cast<int>(status), ")", key_.fp8() ? "; set training.fp8=false" : ""));
  return algorithms;
}

bool GemmPlan::usable(const cublasLtMatmulAlgo_t& algorithm) const {
  const CublasLt& lt = queue_.lt;
  cublasLtMatmulHeuristicResult_t needs{};
  if (lt.algorithm_check(queue_.handle, desc_, a_, b_, c_, y_, &algorithm, &needs) != CUBLAS_STATUS_SUCCESS ||
      needs.workspaceSize > static_cast<std::size_t>(queue_.bytes))
    return false;
  std::uint32_t reduction = 0;
  std::size_t written = 0;
  if (lt.algorithm_config(&algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &reduction, sizeof reduction,
                          &written) == CUBLAS_STATUS_SUCCESS &&
      (reduction & ~kReduction) != 0)
    return false;
  // Checks alignments, because the check above knows no addresses.
  const auto aligned = [&](cublasLtMatmulAlgoCapAttributes_t which, std::int64_t is) {
    std::uint32_t least = 0;
    const cublasStatus_t status = lt.algorithm_cap(&algorithm, which, &least, sizeof least, &written);
    return status != CUBLAS_STATUS_SUCCESS || least <= static_cast<std::uint32_t>(is);
  };
  return aligned(CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_A_BYTES, key_.align_b) &&
         aligned(CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_B_BYTES, key_.align_a) &&
         aligned(CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_C_BYTES, key_.align_c) &&
         aligned(CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_D_BYTES, key_.align_y);
}

void GemmPlan::set_scales(const float* a, const float* b) const {
  const auto set = [&](cublasLtMatmulDescAttributes_t which, const float* at) {
    check(queue_.lt.desc_set(desc_, which, &at, sizeof at), "cublasLtMatmulDescSetAttribute");
  };
  set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, b);
  set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, a);
}

cublasStatus_t GemmPlan::run(const GemmCall& g, const cublasLtMatmulAlgo_t& algorithm) const {
  if (key_.fp8()) set_scales(g.a_scales, g.b_scales);
  const float beta = g.c ? 1 : 0;
  const Tensor& c = g.c ? g.c : g.y;
  return queue_.lt.matmul(queue_.handle, desc_, &g.alpha, g.b.data, a_, g.a.data, b_, &beta, c.data, c_,
                          g.y.data, y_, &algorithm, queue_.workspace, static_cast<std::size_t>(queue_.bytes),
                          queue_.stream);
}

}  // namespace ft::cuda
