#include "engine/cuda/library.h"

#include <dlfcn.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "engine/core/environment.h"
#include "engine/core/error.h"
#include "engine/cuda/cuda_ops.h"
#include "engine/cuda/gemm/cublaslt.h"
#include "engine/cuda/nccl/nccl.h"

namespace ft::cuda {

// Tries the folders in order; "" is the system's search path.
void* open_library(const std::string& name) {
  for (const char* folder : {"", "/usr/local/cuda/lib64/", "/usr/local/cuda/lib/"})
    if (void* library = dlopen((folder + name).c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  return nullptr;
}

}  // namespace ft::cuda

namespace ft {

// Loads each library once, after which it is found by its name; the environment passes the folder on to child
// processes. NCCL and cuDNN may be elsewhere below the folder, or missing.
void use_cuda_libraries(const std::string& folder) {
  namespace fs = std::filesystem;
  const std::string blas = str("libcublasLt.so.", CUBLAS_VER_MAJOR);
  std::vector<fs::path> found;
  std::error_code error;
  const auto options = fs::directory_options::skip_permission_denied;
  for (auto at = fs::recursive_directory_iterator(folder, options, error);
       !error && at != fs::recursive_directory_iterator(); at.increment(error)) {
    const fs::path name = at->path().filename();
    const auto same = [&](const fs::path& p) { return p.filename() == name; };
    if ((name == blas || name == cuda::kNcclLibrary || name == cuda::kCudnnLibrary) &&
        std::none_of(found.begin(), found.end(), same))
      found.push_back(fs::absolute(at->path()));
  }
  if (std::none_of(found.begin(), found.end(), [&](const fs::path& p) { return p.filename() == blas; }))
    throw UserError(Exit::config, str("--cuda-libs: there is no ", blas, " in ", printable(folder),
                                      " or below it", error ? ": " + error.message() : ""));
  std::string path = variable("LD_LIBRARY_PATH");
  for (const fs::path& file : found) {
    const bool loaded = dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr;
    if (!loaded && file.filename() != blas) continue;  // code that needs it reports that it is missing
    if (!loaded) throw UserError(Exit::config, str("--cuda-libs: ", printable(dlerror(), 400)));
    path = file.parent_path().string() + (path.empty() ? "" : ":") + path;
  }
  set_variable("LD_LIBRARY_PATH", path);
}

}  // namespace ft
