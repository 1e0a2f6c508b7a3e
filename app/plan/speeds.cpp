#include "app/plan/speeds.h"

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <utility>

#include "app/assembly/engine.h"
#include "engine/files/folder_speed.h"
#include "engine/ops/ops.h"

namespace ft {
namespace {

using Units = std::initializer_list<std::pair<const char*, double>>;

double number_with_unit(const std::string& option, const std::string& text, const Units& units,
                        const char* example) {
  double number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string unit(rest, text.data() + text.size());
  if (unit.starts_with(' ')) unit.erase(0, 1);
  for (const auto& [name, size] : units)
    if (error == std::errc() && number > 0 && number < 1e9 && unit == name) return number * size;
  throw UserError(Exit::config,
                  str(option, ": ", printable(text), " is not a speed; give one such as ", example));
}

// Measures the offload folders. If parameters and states have different folders, the slower one counts.
void measure_files(Speeds& s, const ZeroConfig& z) {
  const std::pair<const OffloadConfig*, const char*> all[] = {{&z.offload_param, "offload_param"},
                                                              {&z.offload_optimizer, "offload_optimizer"}};
  for (const auto& [o, name] : all) {
    if (o->device != OffloadDevice::nvme || !o->nvme_path) continue;
    try {
      const FolderSpeed f = measure_folder(*o->nvme_path, str("zero_optimization.", name, ".nvme_path"));
      s.read = s.read > 0 ? std::min(s.read, f.read) : f.read;
      s.write = s.write > 0 ? std::min(s.write, f.write) : f.write;
      s.files_from = "measured here";
    } catch (const UserError& e) {
      s = {.files_from = e.what()};
      return;
    }
  }
}

}  // namespace

double bytes_per_second(const std::string& option, const std::string& text) {
  return number_with_unit(option, text, {{"GB/s", 1e9}, {"MB/s", 1e6}, {"GiB/s", 0x1p30}, {"MiB/s", 0x1p20}},
                          "2GB/s");
}

double flops_per_second(const std::string& option, const std::string& text) {
  return number_with_unit(
      option, text, {{"TFLOPS", 1e12}, {"GFLOPS", 1e9}, {"TFLOP/s", 1e12}, {"GFLOP/s", 1e9}}, "1.5TFLOPS");
}

Speeds speeds_of(const RunConfig& config, const GivenSpeeds& given, bool here) {
  Speeds s;
  if (given.disk.empty()) {
    measure_files(s, config.zero_optimization);
  } else {
    s.read = s.write = bytes_per_second("--disk", given.disk);
    s.files_from = "given";
  }
  if (!given.pcie.empty()) s.pcie = bytes_per_second("--pcie", given.pcie);
  if (!given.flops.empty()) {
    s.flops = flops_per_second("--flops", given.flops);
    s.flops_from = "given";
  } else if (here) {
    s.flops = make_run_ops(config, 0)->peak_flops(config.dtype());
    s.flops_from = "measured here";
  }
  return s;
}

}  // namespace ft
