#include "engine/cuda/cublaslt.h"

#include <dlfcn.h>

#include "engine/core/error.h"

namespace ft::cuda {
namespace {

// Its major version is part of the name; the folders are tried in order, "" being the system's.
void* open_library() {
  const std::string name = str("libcublasLt.so.", CUBLAS_VER_MAJOR);
  for (const char* folder : {"", "/usr/local/cuda/lib64/", "/usr/local/cuda/lib/"})
    if (void* library = dlopen((folder + name).c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  throw UserError(Exit::hardware,
                  str("device cuda: ", name, " is not found; install NVIDIA's cuBLAS (a part of CUDA ",
                      CUBLAS_VER_MAJOR, "), or name its folder in LD_LIBRARY_PATH, or use device=cpu"));
}

template <class F>
void find(void* library, F& function, const char* name) {
  void* symbol = dlsym(library, name);
  if (!symbol)
    throw UserError(Exit::hardware, str("device cuda: NVIDIA's cuBLASLt on this machine has no ", name,
                                        "; install cuBLAS ", CUBLAS_VER_MAJOR, " again, or use device=cpu"));
  function = reinterpret_cast<F>(symbol);
}

CublasLt load() {
  void* library = open_library();  // stays
  CublasLt f{};
  find(library, f.create, "cublasLtCreate");
  find(library, f.destroy, "cublasLtDestroy");
  find(library, f.matmul, "cublasLtMatmul");
  find(library, f.desc_create, "cublasLtMatmulDescCreate");
  find(library, f.desc_destroy, "cublasLtMatmulDescDestroy");
  find(library, f.desc_set, "cublasLtMatmulDescSetAttribute");
  find(library, f.layout_create, "cublasLtMatrixLayoutCreate");
  find(library, f.layout_destroy, "cublasLtMatrixLayoutDestroy");
  find(library, f.preference_create, "cublasLtMatmulPreferenceCreate");
  find(library, f.preference_destroy, "cublasLtMatmulPreferenceDestroy");
  find(library, f.preference_set, "cublasLtMatmulPreferenceSetAttribute");
  find(library, f.heuristic, "cublasLtMatmulAlgoGetHeuristic");
  find(library, f.version, "cublasLtGetVersion");
  return f;
}

}  // namespace

const CublasLt& cublaslt() {
  static const CublasLt functions = load();
  return functions;
}

}  // namespace ft::cuda
