// The functions of NVIDIA's cuBLASLt that products need, found in its library when a GPU is used: ft starts
// where it is not installed.
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

// Loaded at the first call. UserError(Exit::hardware) when it is not there.
const CublasLt& cublaslt();

}  // namespace ft::cuda
