#include "engine/cuda/cublaslt.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>

#include "engine/core/error.h"
#include "engine/cuda/cuda_ops.h"

namespace ft::cuda {
namespace {

// The major version is part of the name.
std::string library_name() { return str("libcublasLt.so.", CUBLAS_VER_MAJOR); }

// The folders are tried in order, "" being the system's.
void* open_library() {
  const std::string name = library_name();
  for (const char* folder : {"", "/usr/local/cuda/lib64/", "/usr/local/cuda/lib/"})
    if (void* library = dlopen((folder + name).c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  throw UserError(Exit::hardware,
                  str("device cuda: ", name, " is not found; install NVIDIA's cuBLAS (a part of CUDA ",
                      CUBLAS_VER_MAJOR, "), or say where it is with ft --cuda-libs DIR, or use device=cpu"));
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

namespace ft {

// What is loaded once is found by its name afterwards; the environment tells the processes that are started.
void use_cuda_libraries(const std::string& folder) {
  namespace fs = std::filesystem;
  const std::string name = cuda::library_name();
  std::error_code error;
  fs::path found;
  const auto options = fs::directory_options::skip_permission_denied;
  for (auto at = fs::recursive_directory_iterator(folder, options, error);
       !error && at != fs::recursive_directory_iterator() && found.empty(); at.increment(error))
    if (at->path().filename() == name) found = fs::absolute(at->path());
  if (found.empty())
    throw UserError(Exit::config, str("--cuda-libs: there is no ", name, " in ", printable(folder),
                                      " or below it", error ? ": " + error.message() : ""));
  if (!dlopen(found.c_str(), RTLD_NOW | RTLD_GLOBAL))
    throw UserError(Exit::config, str("--cuda-libs: ", printable(dlerror(), 400)));
  const char* before = std::getenv("LD_LIBRARY_PATH");
  const std::string path = found.parent_path().string() + (before && *before ? str(":", before) : "");
  setenv("LD_LIBRARY_PATH", path.c_str(), 1);
}

}  // namespace ft
