// The functions of NVIDIA's cuBLASLt that products need. They are loaded from its library when a GPU is used,
// so that ft starts without the library.
#pragma once
#include <cublasLt.h>

namespace ft::cuda {

struct CublasLt {
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtDestroy) destroy;
  decltype(&cublasLtMatmul) matmul;
  decltype(&cublasLtMatmulDescCreate) desc_create;
  decltype(&cublasLtMatmulDescDestroy) desc_destroy;
  decltype(&cublasLtMatmulDescSetAttribute) desc_set;
  decltype(&cublasLtMatrixLayoutCreate) layout_create;
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic;
  decltype(&cublasLtMatmulAlgoCheck) algorithm_check;
  decltype(&cublasLtMatmulAlgoCapGetAttribute) algorithm_cap;
  decltype(&cublasLtMatmulAlgoConfigGetAttribute) algorithm_config;
  decltype(&cublasLtGetVersion) version;
};

// Loads the library at the first call. Throws UserError (hardware) if it is missing.
const CublasLt& cublaslt();

}  // namespace ft::cuda
