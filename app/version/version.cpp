#include "app/version/version.h"

#include <iostream>
#include <nlohmann/json.hpp>
#include <vector>

#include "engine/cpu/target.h"
#include "engine/cuda/cuda_ops.h"
#include "engine/files/json.h"

namespace ft {
namespace {

// Returns the CPU features of the chosen kernels; nothing on a processor that ft cannot use.
std::vector<std::string> cpu_features() {
  std::vector<std::string> all{"avx2", "fma", "f16c"};
  try {
    const cpu::Target best = cpu::best_target();
    if (best == cpu::Target::avx2) return all;
    all.insert(all.end(), {"avx512f", "avx512bw", "avx512dq", "avx512vl"});
    if (best == cpu::Target::avx512_bf16) all.emplace_back("avx512_bf16");
    return all;
  } catch (const UserError&) {
    return {};
  }
}

}  // namespace

Exit version(const VersionArgs& args) {
  const auto features = cpu_features();
  if (args.json) {
    Json j;
    j["version"] = kVersion;
    j["commit"] = *kCommit ? Json(kCommit) : Json();
    j["cpu_features"] = features;
    const auto cuda = cuda_version();
    j["cuda"] = cuda ? Json(*cuda) : Json();
    for (const char* library : {"cudnn", "nccl", "gloo"}) j[library] = nullptr;  // not in this build
    std::cout << json_text(j, -1) << "\n";
    return Exit::done;
  }
  std::cout << "ft " << kVersion << (*kCommit ? std::string(" (") + kCommit + ")" : "") << "\ncpu ";
  for (const auto& feature : features) std::cout << " " << feature;
  std::cout << (features.empty() ? " lacks AVX2, FMA or F16C: ft cannot run here" : "") << "\ncuda "
            << cuda_version().value_or("not built in") << "\n";
  return Exit::done;
}

}  // namespace ft
