// For every attention that ft requests, cuDNN itself makes plans for described, absent GPUs. Tests whether
// there is a plan, and the memory that it needs.
#include "engine/cuda/cudnn/cudnn_shapes.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "engine/core/error.h"
#include "engine/cuda/cuda_ops.h"

namespace ft::cuda {
namespace {

struct Described {
  const char* name;
  // 10 x major + minor; multiprocessors; bytes of shared memory that a block may have
  int capability, processors, shared;
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

enum Kind : unsigned { kFull = 0, kCausal = 1, kRagged = 2, kWindow = 4, kBias = 8, kF16 = 16 };
struct Wanted {
  std::int64_t batch, rows, keys, heads, key_heads, width;
  unsigned kind;

  CudnnShape shape(bool gradient) const {
    const std::int64_t row = heads * width + 32, key_row = key_heads * width + 32;
    CudnnShape s{.batch = batch, .rows = rows, .keys = keys};
    s.query_heads = heads, s.key_heads = key_heads, s.width = width;
    s.q = s.y = row, s.k = s.v = key_row;
    if (gradient) s.dq = s.dy = row, s.dk = s.dv = key_row;
    s.f16 = kind & kF16, s.ragged = kind & kRagged, s.causal = kind & kCausal;
    s.window = kind & kWindow, s.bias = kind & kBias, s.gradient = gradient;
    return s;
  }
  std::string name(bool gradient) const {
    return str(batch, " x ", rows, " rows, ", keys, " keys, ", heads, "/", key_heads, " heads of ", width,
               kind & kF16 ? ", f16" : "", kind & kRagged ? ", ragged" : "", kind & kCausal ? ", causal" : "",
               kind & kWindow ? ", window" : "", kind & kBias ? ", bias" : "", gradient ? ", gradient" : "");
  }
  // Returns the size of the workspace in addition to the plan's: see Parts in cudnn_attention.cpp.
  std::int64_t beside() const {
    return (1 << 20) + 2 * (batch * heads * rows * 4 + 256) + (kind & kBias ? heads * rows * keys * 2 : 0);
  }
};
// A shape of each kind that ft requests, and the largest shape.
constexpr Wanted kWanted[] = {
    {1, 4096, 4096, 32, 32, 128, kCausal},
    {2, 896, 896, 12, 4, 64, kCausal},
    {4, 384, 384, 12, 4, 64, kFull},
    {1, 4096, 4096, 32, 8, 128, kRagged | kCausal},
    {64, 128, 128, 12, 4, 64, kRagged | kCausal},
    {8, 512, 512, 16, 16, 64, kRagged},
    {2, 256, 256, 8, 8, 80, kRagged | kCausal | kF16},
    {2, 1024, 1024, 32, 8, 128, kCausal | kWindow},
    {4, 1024, 1024, 32, 8, 128, kRagged | kCausal | kWindow},
    {8, 128, 512, 12, 12, 64, kFull},
    {8, 128, 512, 12, 12, 64, kRagged},
    {4, 512, 256, 12, 12, 64, kRagged},
    {8, 512, 512, 12, 12, 64, kBias},
    {8, 512, 512, 12, 12, 64, kRagged | kBias},
    {4, 256, 256, 16, 16, 64, kRagged | kBias | kCausal},
};

class CudnnShapes : public testing::TestWithParam<Described> {};
INSTANTIATE_TEST_SUITE_P(Gpus, CudnnShapes, testing::ValuesIn(kGpus),
                         [](const auto& gpu) { return str("sm_", gpu.param.capability); });

TEST_P(CudnnShapes, HavePlans) {
  ASSERT_TRUE(dlopen(FT_FAKE_LIBCUDA, RTLD_NOW | RTLD_GLOBAL)) << dlerror();
  const Cudnn* f = cudnn();
  if (!f) GTEST_SKIP() << "there is no cuDNN 9.8 or later";
  const CudnnPart device = cudnn_device(*f, json_of(GetParam()));
  for (const Wanted& w : kWanted)
    for (const bool gradient : {false, true}) {
      const std::string name = w.name(gradient);
      // Without a plan, ft's own kernels compute the gradient.
      const int capability = GetParam().capability;
      const bool expected =
          !gradient || !(w.kind & kRagged) || capability == 90 || (capability == 100 && !(w.kind & kBias));
      try {
        const CudnnPlan p = cudnn_plan(*f, w.shape(gradient), *device);
        RecordProperty(name, str(p.workspace));
        EXPECT_LE(p.workspace, gradient ? CudaWorkspace::kCudnn - w.beside() : 1 << 20) << name;
      } catch (const CudnnRefusal& r) {
        EXPECT_FALSE(expected) << name << ": " << r.why;
      }
    }
}

}  // namespace
}  // namespace ft::cuda
