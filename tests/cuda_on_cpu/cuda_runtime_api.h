// What NVIDIA's other headers include, and what they name of it that ft does not use.
#pragma once
#include "tests/cuda_on_cpu/cuda_runtime.h"

using cudaGraph_t = struct CudaOnCpuGraph*;
