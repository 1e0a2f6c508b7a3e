#include "engine/cuda/cublaslt.h"

#include <dlfcn.h>

#include <type_traits>

#include "engine/core/error.h"
#include "engine/cuda/library.h"

namespace ft::cuda {
namespace {

CublasLt load() {
  const std::string name = str("libcublasLt.so.", CUBLAS_VER_MAJOR);  // the major version is part of it
  void* library = open_library(name);
  if (!library)
    throw UserError(
        Exit::hardware,
        str("device cuda: ", name, " is not found; install NVIDIA's cuBLAS (a part of CUDA ",
            CUBLAS_VER_MAJOR, "), or say where it is with ft --cuda-libs DIR, or use device=cpu"));
  CublasLt f{};
  const auto find = [&](auto& function, const char* symbol) {
    void* found = dlsym(library, symbol);
    if (!found)
      throw UserError(Exit::hardware,
                      str("device cuda: NVIDIA's cuBLASLt on this machine has no ", symbol,
                          "; install cuBLAS ", CUBLAS_VER_MAJOR, " again, or use device=cpu"));
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(found);
  };
  find(f.create, "cublasLtCreate");
  find(f.destroy, "cublasLtDestroy");
  find(f.matmul, "cublasLtMatmul");
  find(f.desc_create, "cublasLtMatmulDescCreate");
  find(f.desc_destroy, "cublasLtMatmulDescDestroy");
  find(f.desc_set, "cublasLtMatmulDescSetAttribute");
  find(f.layout_create, "cublasLtMatrixLayoutCreate");
  find(f.layout_destroy, "cublasLtMatrixLayoutDestroy");
  find(f.preference_create, "cublasLtMatmulPreferenceCreate");
  find(f.preference_destroy, "cublasLtMatmulPreferenceDestroy");
  find(f.preference_set, "cublasLtMatmulPreferenceSetAttribute");
  find(f.heuristic, "cublasLtMatmulAlgoGetHeuristic");
  find(f.version, "cublasLtGetVersion");
  return f;
}

}  // namespace

const CublasLt& cublaslt() {
  static const CublasLt functions = load();
  return functions;
}

}  // namespace ft::cuda
