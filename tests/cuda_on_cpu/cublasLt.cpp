// Products as cuBLASLt documents them: D = alpha op(A) op(B) + beta C, all column-major. Throws Fault if a
// pointer is less aligned than was declared when the algorithm was chosen; the real library would read out of
// bounds.
#include "tests/cuda_on_cpu/cublasLt.h"

#include <algorithm>
#include <array>

#include "engine/core/dtype.h"
#include "engine/cuda/gemm/cublaslt.h"
#include "engine/quant/fp8.h"
#include "tests/cuda_on_cpu/streams.h"

struct CublasLtOnCpu {};
struct CublasLtDesc {
  cublasOperation_t a = CUBLAS_OP_N, b = CUBLAS_OP_N;
  const float *a_scales = nullptr, *b_scales = nullptr;
  std::int32_t a_mode = CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F,
               b_mode = CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
  std::int8_t fast_sums = 0;
};
struct CublasLtLayout {
  cudaDataType_t type;
  std::uint64_t rows, cols;
  std::int64_t ld;
};
struct CublasLtPreference {
  std::array<std::uint32_t, 4> alignment{256, 256, 256, 256};
};

namespace {

float read(const void* p, const CublasLtLayout& l, std::uint64_t row, std::uint64_t col) {
  const auto at = static_cast<std::size_t>(col) * static_cast<std::size_t>(l.ld) + row;
  if (l.type == CUDA_R_8F_E4M3) return ft::to_float(static_cast<const ft::e4m3*>(p)[at]);
  if (l.type == CUDA_R_16BF) return ft::to_float(static_cast<const ft::bf16*>(p)[at]);
  if (l.type == CUDA_R_16F) return ft::to_float(static_cast<const ft::f16*>(p)[at]);
  return static_cast<const float*>(p)[at];
}
void write(void* p, const CublasLtLayout& l, std::uint64_t row, std::uint64_t col, float v) {
  const auto at = static_cast<std::size_t>(col) * static_cast<std::size_t>(l.ld) + row;
  if (l.type == CUDA_R_16BF)
    ft::from_float(static_cast<ft::bf16*>(p)[at], v);
  else if (l.type == CUDA_R_16F)
    ft::from_float(static_cast<ft::f16*>(p)[at], v);
  else
    static_cast<float*>(p)[at] = v;
}
std::size_t bytes(const CublasLtLayout& l) {
  const std::size_t size = l.type == CUDA_R_32F ? 4 : l.type == CUDA_R_8F_E4M3 ? 1 : 2;
  return (static_cast<std::size_t>(l.ld) * (l.cols - 1) + l.rows) * size;
}

constexpr std::uint64_t kMark = 0x6f6e2d637075;
using cuda_on_cpu::LtAlgorithm;

std::uint64_t number_of(const cublasLtMatmulAlgo_t& a) { return a.data[1]; }
bool is_algorithm(const cublasLtMatmulAlgo_t& a) {
  return a.data[0] == kMark && number_of(a) < cuda_on_cpu::kLtAlgorithms && a.data[6] == 0 && a.data[7] == 0;
}
const LtAlgorithm& about(const cublasLtMatmulAlgo_t& a) { return cuda_on_cpu::lt_algorithms()[number_of(a)]; }

// Returns true if Hopper has a product in FP8 for these operands, which fit: a scale for each row of both,
// A transposed and B not, sizes and distances in multiples of 16. The number of B's columns is free.
bool is_fp8_product(const CublasLtDesc& desc, const CublasLtLayout& a, const CublasLtLayout& b,
                    const CublasLtLayout& d) {
  constexpr std::int32_t kRows = CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
  return cuda_on_cpu::capability() == 9 && desc.a == CUBLAS_OP_T && desc.b == CUBLAS_OP_N &&
         desc.a_mode == kRows && desc.b_mode == kRows && desc.a_scales && desc.b_scales && a.rows % 16 == 0 &&
         a.cols % 16 == 0 && a.ld % 16 == 0 && b.ld % 16 == 0 && d.ld % (d.type == CUDA_R_32F ? 4 : 8) == 0 &&
         (d.type == CUDA_R_16BF || d.type == CUDA_R_32F);
}

// Returns true if cuBLASLt has a product for these operands.
bool is_product(const CublasLtDesc& desc, const CublasLtLayout& a, const CublasLtLayout& b,
                const CublasLtLayout& c, const CublasLtLayout& d) {
  const bool ta = desc.a == CUBLAS_OP_T, tb = desc.b == CUBLAS_OP_T;
  const bool fits = (ta ? a.cols : a.rows) == d.rows && (tb ? b.rows : b.cols) == d.cols &&
                    (ta ? a.rows : a.cols) == (tb ? b.cols : b.rows) && c.rows == d.rows && c.cols == d.cols;
  if (!fits || a.type != b.type || c.type != d.type) return false;
  if (a.type == CUDA_R_8F_E4M3) return is_fp8_product(desc, a, b, d);
  return d.type == a.type || d.type == CUDA_R_32F;
}

cuda_on_cpu::LtCalls& calls() {
  static cuda_on_cpu::LtCalls c;
  return c;
}

double& clock_of_products() {
  static double speed = 1;
  return speed;
}
double& quickening() {
  static double by = 1;
  return by;
}

cublasStatus_t answer(std::uint32_t value, void* to, std::size_t size, std::size_t* written) {
  if (size != sizeof value) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(to, &value, size);
  *written = size;
  return CUBLAS_STATUS_SUCCESS;
}

// Scales of A's and B's rows in K-major order, which are columns here.
void require_scales(const CublasLtDesc& t, const CublasLtLayout& a, const CublasLtLayout& b) {
  for (const auto& [scales, n] : {std::pair{t.a_scales, a.cols}, {t.b_scales, b.cols}})
    if (reinterpret_cast<std::uintptr_t>(scales) % 16 != 0 || !cuda_on_cpu::on_device(scales, 4 * n))
      throw cuda_on_cpu::Fault("a product's scales are not in device memory, or not at a multiple of 16");
}

void require_operand(const void* p, const CublasLtLayout& l, std::uint64_t alignment) {
  if (reinterpret_cast<std::uintptr_t>(p) % alignment != 0)
    throw cuda_on_cpu::Fault("a product's operand is less aligned than was said");
  if (!cuda_on_cpu::on_device(p, bytes(l))) throw cuda_on_cpu::Fault("a product beyond device memory");
}

}  // namespace

std::size_t cublasLtGetVersion() { return 130000; }
cublasStatus_t cublasLtCreate(cublasLtHandle_t* h) { return *h = new CublasLtOnCpu, CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtDestroy(cublasLtHandle_t h) { return delete h, CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* d, cublasComputeType_t, cudaDataType_t) {
  const cuda_on_cpu::Lock held = cuda_on_cpu::lock();
  ++calls().descriptors;
  return *d = new CublasLtDesc, CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d) {
  const cuda_on_cpu::Lock held = cuda_on_cpu::lock();
  --calls().descriptors;
  return delete d, CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t which,
                                              const void* value, std::size_t size) {
  const auto keep = [&](auto& to) {
    if (size != sizeof to) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(&to, value, size);
    return CUBLAS_STATUS_SUCCESS;
  };
  switch (which) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return keep(d->a);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return keep(d->b);
    case CUBLASLT_MATMUL_DESC_A_SCALE_POINTER:
      return keep(d->a_scales);
    case CUBLASLT_MATMUL_DESC_B_SCALE_POINTER:
      return keep(d->b_scales);
    case CUBLASLT_MATMUL_DESC_FAST_ACCUM:
      return keep(d->fast_sums);
    case CUBLASLT_MATMUL_DESC_A_SCALE_MODE:
      return keep(d->a_mode);
    case CUBLASLT_MATMUL_DESC_B_SCALE_MODE:
      return keep(d->b_mode);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* l, cudaDataType_t type, std::uint64_t rows,
                                          std::uint64_t cols, std::int64_t ld) {
  if (ld < static_cast<std::int64_t>(rows) || rows == 0 || cols == 0) return CUBLAS_STATUS_INVALID_VALUE;
  *l = new CublasLtLayout{type, rows, cols, ld};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l) {
  return delete l, CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* p) {
  return *p = new CublasLtPreference, CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p) {
  return delete p, CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t p,
                                                    cublasLtMatmulPreferenceAttributes_t which,
                                                    const void* value, std::size_t size) {
  const bool wide = which == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
  if (size != (wide ? sizeof(std::uint64_t) : sizeof(std::uint32_t))) return CUBLAS_STATUS_INVALID_VALUE;
  if (which >= CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES)
    p->alignment[which - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES] =
        *static_cast<const std::uint32_t*>(value);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t p, int wanted,
                                              cublasLtMatmulHeuristicResult_t* results, int* found) {
  const cuda_on_cpu::Lock held = cuda_on_cpu::lock();
  ++calls().heuristics;
  *found = 0;
  if (!is_product(*desc, *a, *b, *c, *d)) return CUBLAS_STATUS_NOT_SUPPORTED;
  for (; *found < wanted && *found < static_cast<int>(cuda_on_cpu::kLtAlgorithms); ++*found) {
    const auto number = static_cast<std::uint64_t>(*found);
    const auto& at = p->alignment;
    results[number].algo = {{kMark, number, at[0], at[1], at[2], at[3], 0, 0}};
    results[number].state = CUBLAS_STATUS_SUCCESS;
    results[number].workspaceSize = about(results[number].algo).workspace;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                                       cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                                       cublasLtMatrixLayout_t d, const cublasLtMatmulAlgo_t* algorithm,
                                       cublasLtMatmulHeuristicResult_t* result) {
  if (!is_algorithm(*algorithm) || !is_product(*desc, *a, *b, *c, *d)) return CUBLAS_STATUS_INVALID_VALUE;
  result->workspaceSize = about(*algorithm).workspace;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoCapGetAttribute(const cublasLtMatmulAlgo_t* a,
                                                 cublasLtMatmulAlgoCapAttributes_t which, void* to,
                                                 std::size_t size, std::size_t* written) {
  const auto chosen_for =
      static_cast<std::uint32_t>(a->data[2 + which - CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_A_BYTES]);
  return answer(std::max(about(*a).alignment, chosen_for), to, size, written);
}
cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* a,
                                                    cublasLtMatmulAlgoConfigAttributes_t, void* to,
                                                    std::size_t size, std::size_t* written) {
  return answer(about(*a).reduction, to, size, written);
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t la, const void* b, cublasLtMatrixLayout_t lb,
                              const void* beta, const void* c, cublasLtMatrixLayout_t lc, void* d,
                              cublasLtMatrixLayout_t ld, const cublasLtMatmulAlgo_t* algorithm,
                              void* workspace, std::size_t size, cudaStream_t stream) {
  if (!is_algorithm(*algorithm)) throw cuda_on_cpu::Fault("a product by what is no algorithm");
  const LtAlgorithm& how = about(*algorithm);
  if (!how.runs) return CUBLAS_STATUS_NOT_SUPPORTED;
  const auto aligned = [&](std::size_t i) {
    return std::max<std::uint64_t>(how.alignment, algorithm->data[2 + i]);
  };
  const bool fp8 = la->type == CUDA_R_8F_E4M3;
  if (fp8 && !is_fp8_product(*desc, *la, *lb, *ld)) return CUBLAS_STATUS_INVALID_VALUE;
  if (fp8) require_scales(*desc, *la, *lb);
  require_operand(a, *la, fp8 ? std::max<std::uint64_t>(16, aligned(0)) : aligned(0));
  require_operand(b, *lb, fp8 ? std::max<std::uint64_t>(16, aligned(1)) : aligned(1));
  require_operand(c, *lc, aligned(2));
  require_operand(d, *ld, aligned(3));
  if (how.reduction > CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE)
    throw cuda_on_cpu::Fault("a product whose parts are added in no fixed order");
  if (!cuda_on_cpu::on_device(workspace, size) || size < how.workspace) return CUBLAS_STATUS_INVALID_VALUE;
  const float by = *static_cast<const float*>(alpha), keep = *static_cast<const float*>(beta);
  cuda_on_cpu::enqueue(
      stream, [=, number = number_of(*algorithm), t = *desc, A = *la, B = *lb, C = *lc, D = *ld] {
        ++calls().products[number];
        calls().fp8 += fp8;
        calls().fast_sums += fp8 && t.fast_sums;
        double& speed = clock_of_products();
        cuda_on_cpu::microseconds() += cuda_on_cpu::lt_algorithms()[number].microseconds / speed;
        speed = std::min(speed * quickening(), 4.0);
        std::memset(workspace, 0xff, size < 4096 ? size : 4096);  // a real product may use it
        const bool ta = t.a == CUBLAS_OP_T, tb = t.b == CUBLAS_OP_T;
        const std::uint64_t depth = ta ? A.rows : A.cols;
        for (std::uint64_t j = 0; j < D.cols; ++j)
          for (std::uint64_t i = 0; i < D.rows; ++i) {
            float sum = 0;
            for (std::uint64_t k = 0; k < depth; ++k)
              sum += (ta ? read(a, A, k, i) : read(a, A, i, k)) * (tb ? read(b, B, j, k) : read(b, B, k, j));
            if (fp8) sum = sum * t.a_scales[i] * t.b_scales[j];
            write(d, D, i, j, by * sum + (keep != 0 ? keep * read(c, C, i, j) : 0));
          }
      });
  return CUBLAS_STATUS_SUCCESS;
}

namespace cuda_on_cpu {

const std::array<LtAlgorithm, kLtAlgorithms>& lt_algorithms() {
  static constexpr std::array<LtAlgorithm, kLtAlgorithms> all{{
      {.microseconds = 40, .alignment = 1},
      {.microseconds = 5, .alignment = 1, .workspace = std::size_t{1} << 40},
      {.microseconds = 10, .alignment = 16},
      {.microseconds = 12, .alignment = 1},
      {.microseconds = 2, .alignment = 1, .reduction = CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE},
      {.microseconds = 1, .alignment = 1, .runs = false},
  }};
  return all;
}

void quicken_products(double by) {
  const Lock held = lock();
  clock_of_products() = 1;
  quickening() = by;
}

LtCalls lt_calls() {
  const Lock held = lock();
  return calls();
}

}  // namespace cuda_on_cpu

namespace ft {

void use_cuda_libraries(const std::string&) {}  // the program is linked with this library

}  // namespace ft

namespace ft::cuda {

const CublasLt& cublaslt() {
  static const CublasLt functions{cublasLtCreate,
                                  cublasLtDestroy,
                                  cublasLtMatmul,
                                  cublasLtMatmulDescCreate,
                                  cublasLtMatmulDescDestroy,
                                  cublasLtMatmulDescSetAttribute,
                                  cublasLtMatrixLayoutCreate,
                                  cublasLtMatrixLayoutDestroy,
                                  cublasLtMatmulPreferenceCreate,
                                  cublasLtMatmulPreferenceDestroy,
                                  cublasLtMatmulPreferenceSetAttribute,
                                  cublasLtMatmulAlgoGetHeuristic,
                                  cublasLtMatmulAlgoCheck,
                                  cublasLtMatmulAlgoCapGetAttribute,
                                  cublasLtMatmulAlgoConfigGetAttribute,
                                  cublasLtGetVersion};
  return functions;
}

}  // namespace ft::cuda
