// The functions of NVIDIA's cuDNN, 9.8 or later, that attention needs. They are loaded from its library when
// it is requested.
#pragma once
#include <cuda_runtime.h>
#include <cudnn.h>

namespace ft::cuda {

struct Cudnn {
  decltype(&cudnnGetVersion) version;
  decltype(&cudnnGetErrorString) error_text;
  decltype(&cudnnCreate) create_handle;
  decltype(&cudnnDestroy) destroy_handle;
  decltype(&cudnnSetStream) set_stream;
  decltype(&cudnnBackendCreateDescriptor) create;
  decltype(&cudnnBackendDestroyDescriptor) destroy;
  decltype(&cudnnBackendSetAttribute) set;
  decltype(&cudnnBackendGetAttribute) get;
  decltype(&cudnnBackendFinalize) finalize;
  decltype(&cudnnBackendExecute) execute;
};

// Returns null if there is no cuDNN, or an older one.
const Cudnn* cudnn();

}  // namespace ft::cuda
