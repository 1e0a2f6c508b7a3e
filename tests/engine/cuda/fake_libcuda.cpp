// Replaces the driver while cuDNN makes plans for an absent GPU: cuDNN loads the kernels that it compiles,
// but never runs them.
namespace {

int give(void** p) {
  static char somewhere = 0;
  *p = &somewhere;
  return 0;
}

}  // namespace

extern "C" {
int cuDriverGetVersion(int* version) { return *version = 13000, 0; }
int cuInit(unsigned) { return 100; }
int cuLibraryLoadData(void** p) { return give(p); }
int cuLibraryGetKernel(void** p) { return give(p); }
int cuLibraryGetModule(void** p) { return give(p); }
int cuKernelGetFunction(void** p) { return give(p); }
int cuModuleLoadData(void** p) { return give(p); }
int cuModuleGetFunction(void** p) { return give(p); }
int cuKernelGetAttribute(int* value) { return *value = 0, 0; }
int cuFuncGetAttribute(int* value) { return *value = 0, 0; }
#define NOTHING(name) \
  int name() { return 0; }
NOTHING(cuLibraryUnload)
NOTHING(cuLibraryLoadFromFile)
NOTHING(cuKernelSetAttribute)
NOTHING(cuFuncSetAttribute)
NOTHING(cuModuleUnload)
NOTHING(cuCtxGetCurrent)
NOTHING(cuCtxGetLimit)
NOTHING(cuCtxPopCurrent)
NOTHING(cuCtxPushCurrent)
NOTHING(cuDeviceGet)
NOTHING(cuDeviceGetCount)
NOTHING(cuGetErrorName)
NOTHING(cuGetErrorString)
NOTHING(cuLaunchCooperativeKernel)
NOTHING(cuLaunchKernel)
NOTHING(cuLaunchKernelEx)
NOTHING(cuLinkAddData)
NOTHING(cuLinkComplete)
NOTHING(cuLinkCreate)
NOTHING(cuLinkDestroy)
NOTHING(cuOccupancyMaxPotentialClusterSize)
NOTHING(cuStreamGetCtx)
}
