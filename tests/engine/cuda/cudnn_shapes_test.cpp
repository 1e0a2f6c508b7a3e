// Every attention that ft asks cuDNN for is planned by cuDNN itself for GPUs that are described, not there:
// whether there is a plan, and the memory that it needs.
#include "engine/cuda/cudnn_shapes.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "engine/core/error.h"
#include "engine/cuda/cuda_ops.h"

namespace ft::cuda {
namespace {

struct Described {
  const char* name;
  int capability, processors, shared;  // 10 x major + minor; bytes of shared memory that a block may have
};
constexpr Described kGpus[] = {{"A100", 80, 108, 166912},
                               {"H200", 90, 132, 232448},
                               {"B200", 100, 148, 232448},
                               {"RTX 5090", 120, 170, 101376}};

std::string json_of(const Described& d) {
  return str(
      R"({"cudaDeviceId":0,"deviceName":"NVIDIA )", d.name, R"(","deviceVer":)", d.capability * 10,
      R"(,"driverVer":13000,"isTccDriver":0,"l2CacheSize":62914560,"maxBlockSize":[1024,1024,64],)"
      R"("maxCtasPerSM":32,"maxGridSize":[2147483647,65535,65535],"maxRegistersPerSM":65536,)"
      R"("maxSharedMemoryPerBlock":49152,"maxSharedMemoryPerBlockOptin":)",
      d.shared, R"(,"maxThreadsPerBlock":1024,"maxThreadsPerSM":)", d.capability == 120 ? 1536 : 2048,
      R"(,"memClockRateKHz":3201000,"multiProcessorCount":)", d.processors,
      R"(,"pciDeviceId":0,"regsPerBlock":65536,"reservedSharedMemoryPerBlock":1024,)"
      R"("smClockRateKHz":1980000,"supportCoopLaunch":1,"totalGlobalMem":150754820096,"warpSize":32})");
}

CudnnShape shape_of(std::int64_t rows, std::int64_t heads, std::int64_t key_heads, std::int64_t width) {
  const std::int64_t row = heads * width, key_row = key_heads * width;
  return {.rows = rows,
          .query_heads = heads,
          .key_heads = key_heads,
          .width = width,
          .lse_stride = 2 * rows,
          .q = row + 32,
          .k = key_row + 32,
          .v = key_row + 32,
          .y = row + 32,
          .dy = row + 32,
          .dq = row + 32,
          .dk = key_row + 32,
          .dv = key_row + 32};
}

class CudnnShapes : public testing::TestWithParam<Described> {};
INSTANTIATE_TEST_SUITE_P(Gpus, CudnnShapes, testing::ValuesIn(kGpus),
                         [](const auto& gpu) { return str("sm_", gpu.param.capability); });

TEST_P(CudnnShapes, HavePlans) {
  ASSERT_TRUE(dlopen(FT_FAKE_LIBCUDA, RTLD_NOW | RTLD_GLOBAL)) << dlerror();
  const Cudnn* f = cudnn();
  if (!f) GTEST_SKIP() << "there is no cuDNN 9.8 or later";
  const CudnnPart device = cudnn_device(*f, json_of(GetParam()));
  for (CudnnShape s : {shape_of(1000, 12, 4, 64), shape_of(4096, 32, 32, 128)})
    for (const bool causal : {true, false})
      for (const bool gradient : {false, true}) {
        s.causal = causal;
        s.gradient = gradient;
        const std::string name = str(s.rows, " rows, ", s.query_heads, "/", s.key_heads, " heads of ",
                                     s.width, causal ? ", causal" : "", gradient ? ", gradient" : "");
        try {
          const CudnnPlan p = cudnn_plan(*f, s, *device);
          RecordProperty(name, str(p.workspace));
          const std::int64_t sums = s.rows * s.query_heads * 4;
          EXPECT_LE(p.workspace, gradient ? CudaWorkspace::kCudnn - sums : 1024) << name;
        } catch (const CudnnRefusal& r) {
          ADD_FAILURE() << name << ": " << r.why;
        }
      }
}

}  // namespace
}  // namespace ft::cuda
