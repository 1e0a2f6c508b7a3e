#include "engine/cuda/gemm/cublaslt.h"

#include "engine/core/error.h"
#include "engine/core/library_symbols.h"
#include "engine/cuda/library.h"

namespace ft::cuda {
namespace {

CublasLt load() {
  const std::string name = str("libcublasLt.so.", CUBLAS_VER_MAJOR);  // the name contains the major version
  void* library = open_library(name);
  if (!library)
    throw UserError(
        Exit::hardware,
        str("device cuda: ", name, " is not found; install NVIDIA's cuBLAS (a part of CUDA ",
            CUBLAS_VER_MAJOR, "), or say where it is with ft --cuda-libs DIR, or use device=cpu"));
  CublasLt f{};
  LibrarySymbols symbols(library);
  symbols.find(f.create, "cublasLtCreate");
  symbols.find(f.destroy, "cublasLtDestroy");
  symbols.find(f.matmul, "cublasLtMatmul");
  symbols.find(f.desc_create, "cublasLtMatmulDescCreate");
  symbols.find(f.desc_destroy, "cublasLtMatmulDescDestroy");
  symbols.find(f.desc_set, "cublasLtMatmulDescSetAttribute");
  symbols.find(f.layout_create, "cublasLtMatrixLayoutCreate");
  symbols.find(f.layout_destroy, "cublasLtMatrixLayoutDestroy");
  symbols.find(f.preference_create, "cublasLtMatmulPreferenceCreate");
  symbols.find(f.preference_destroy, "cublasLtMatmulPreferenceDestroy");
  symbols.find(f.preference_set, "cublasLtMatmulPreferenceSetAttribute");
  symbols.find(f.heuristic, "cublasLtMatmulAlgoGetHeuristic");
  symbols.find(f.algorithm_check, "cublasLtMatmulAlgoCheck");
  symbols.find(f.algorithm_cap, "cublasLtMatmulAlgoCapGetAttribute");
  symbols.find(f.algorithm_config, "cublasLtMatmulAlgoConfigGetAttribute");
  symbols.find(f.version, "cublasLtGetVersion");
  if (symbols.missing())
    throw UserError(Exit::hardware,
                    str("device cuda: NVIDIA's cuBLASLt on this machine has no ", symbols.missing(),
                        "; install cuBLAS ", CUBLAS_VER_MAJOR, " again, or use device=cpu"));
  return f;
}

}  // namespace

const CublasLt& cublaslt() {
  static const CublasLt functions = load();
  return functions;
}

}  // namespace ft::cuda
