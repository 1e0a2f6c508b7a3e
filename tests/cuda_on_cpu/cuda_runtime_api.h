// Included by NVIDIA's other headers. Declares the names that these use and ft does not.
#pragma once
#include "tests/cuda_on_cpu/cuda_runtime.h"

using cudaGraph_t = struct CudaOnCpuGraph*;
