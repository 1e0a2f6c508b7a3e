#include "engine/cuda/gemm.h"

#include <algorithm>

namespace ft::cuda {
namespace {

void check(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw UserError(Exit::hardware, str("cuBLASLt failed in ", what, ": status ", static_cast<int>(status)));
}

cudaDataType_t type_of(std::int64_t dtype) {
  const auto t = static_cast<DType>(dtype);
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

// cuBLASLt's matrices are column-major: to it y is y^T (n, m) = op(b)^T op(a)^T, b is its A and a its B.
struct Gemm::Plan {
  explicit Plan(const CublasLt& functions) : lt(functions) {}
  ~Plan() {
    for (cublasLtMatrixLayout_t l : {a, b, c, y})
      if (l) lt.layout_destroy(l);
    if (desc) lt.desc_destroy(desc);
  }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  const CublasLt& lt;
  cublasLtMatmulDesc_t desc = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr, y = nullptr;
  cublasLtMatmulAlgo_t algorithm{};
};

Gemm::Gemm(cudaStream_t stream, std::byte* workspace, std::int64_t bytes)
    : lt_(cublaslt()), stream_(stream), workspace_(workspace), bytes_(bytes) {
  check(lt_.create(&handle_), "cublasLtCreate");
}
Gemm::~Gemm() {
  plans_.clear();
  lt_.destroy(handle_);
}

Gemm::Key Gemm::key_of(const GemmCall& g) {
  const Tensor& c = g.c ? g.c : g.y;  // where it is not read its layout is y's
  return {g.y.rows(),
          g.y.cols(),
          g.transpose_a ? g.a.rows() : g.a.cols(),
          g.transpose_a,
          g.transpose_b,
          g.a.stride,
          g.b.stride,
          c.stride,
          g.y.stride,
          static_cast<std::int64_t>(g.a.dtype),
          static_cast<std::int64_t>(g.y.dtype),
          alignment(g.a),
          alignment(g.b),
          alignment(c),
          alignment(g.y)};
}

std::unique_ptr<Gemm::Plan> Gemm::make_plan(const Key& key) const {
  const auto [m, n, k, ta, tb, lda, ldb, ldc, ldy, operands, result, align_a, align_b, align_c, align_y] =
      key;
  auto p = std::make_unique<Plan>(lt_);
  check(lt_.desc_create(&p->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate");
  const auto transpose = [&](cublasLtMatmulDescAttributes_t which, bool yes) {
    const cublasOperation_t op = yes ? CUBLAS_OP_T : CUBLAS_OP_N;
    check(lt_.desc_set(p->desc, which, &op, sizeof op), "cublasLtMatmulDescSetAttribute");
  };
  transpose(CUBLASLT_MATMUL_DESC_TRANSA, tb);
  transpose(CUBLASLT_MATMUL_DESC_TRANSB, ta);
  // A row-major (rows, cols) matrix is a column-major (cols, rows) one.
  const auto layout = [&](cublasLtMatrixLayout_t& l, std::int64_t type, std::int64_t rows, std::int64_t cols,
                          std::int64_t stride) {
    check(lt_.layout_create(&l, type_of(type), static_cast<std::uint64_t>(cols),
                            static_cast<std::uint64_t>(rows), std::max(stride, cols)),
          "cublasLtMatrixLayoutCreate");
  };
  layout(p->a, operands, tb ? n : k, tb ? k : n, ldb);
  layout(p->b, operands, ta ? k : m, ta ? m : k, lda);
  layout(p->c, result, m, n, ldc);
  layout(p->y, result, m, n, ldy);

  cublasLtMatmulPreference_t preference = nullptr;
  check(lt_.preference_create(&preference), "cublasLtMatmulPreferenceCreate");
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t which, auto value) {
    check(lt_.preference_set(preference, which, &value, sizeof value),
          "cublasLtMatmulPreferenceSetAttribute");
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(bytes_));
  // A long sum may be split, but its parts are added in f32 and in a fixed order.
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
         static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, static_cast<std::uint32_t>(align_b));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, static_cast<std::uint32_t>(align_a));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, static_cast<std::uint32_t>(align_c));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, static_cast<std::uint32_t>(align_y));
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  const cublasStatus_t status =
      lt_.heuristic(handle_, p->desc, p->a, p->b, p->c, p->y, preference, 1, &found, &count);
  lt_.preference_destroy(preference);
  if (status != CUBLAS_STATUS_SUCCESS || count == 0)
    throw UserError(Exit::hardware, str("cuBLASLt has no product of ", m, " x ", k, " by ", k, " x ", n,
                                        " of this type on this GPU (status ", static_cast<int>(status), ")"));
  p->algorithm = found.algo;
  return p;
}

void Gemm::run(const GemmCall& g) {
  const Key key = key_of(g);
  auto& plan = plans_[key];
  if (!plan) plan = make_plan(key);
  const float beta = g.c ? 1 : 0;
  const Tensor& c = g.c ? g.c : g.y;
  check(
      lt_.matmul(handle_, plan->desc, &g.alpha, g.b.data, plan->a, g.a.data, plan->b, &beta, c.data, plan->c,
                 g.y.data, plan->y, &plan->algorithm, workspace_, static_cast<std::size_t>(bytes_), stream_),
      "cublasLtMatmul");
}

}  // namespace ft::cuda
