#include "app/plan/gpu_sizes.h"

#include <charconv>
#include <utility>

#include "engine/core/error.h"
#include "engine/core/suggest.h"
#include "engine/cuda/cuda_ops.h"

namespace ft {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;

// Total memory that the driver reports, in GiB: less than the advertised size.
constexpr std::pair<const char*, double> kGpus[] = {{"a100-40", 39.4}, {"a100-80", 79.2}, {"h100", 79.2},
                                                    {"h200", 139.8},   {"b200", 178.4},   {"l4", 22.0},
                                                    {"l40s", 44.4},    {"a10", 22.0},     {"a6000", 47.5},
                                                    {"rtx3090", 23.7}, {"rtx4090", 23.5}, {"rtx5090", 31.4}};

// Returns the bytes of "24GiB" or "80 GB"; 0: not a size.
double size_of_text(const std::string& text) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  std::string unit(rest, end);
  if (error != std::errc() || !(number > 0) || number > 1e6) return 0;
  if (unit.starts_with(' ')) unit.erase(0, 1);
  if (unit == "GiB") return number * kGiB;
  if (unit == "GB") return number * 1e9;
  return 0;
}

}  // namespace

std::int64_t gpu_memory(const std::string& text) {
  double total = size_of_text(text);
  std::vector<std::string> names;
  for (const auto& [name, size] : kGpus) {
    names.emplace_back(name);
    if (text == name) total = size * kGiB;
  }
  if (total > CudaWorkspace::kDriver) return static_cast<std::int64_t>(total);
  const std::string near = nearest(text, names);
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "" : ", ") + name;
  throw UserError(Exit::config,
                  str("--gpu: ", printable(text), " is neither a size such as 24GiB nor a GPU that ft knows",
                      near.empty() ? "" : "; do you mean " + near + "?", " (", all, ")"));
}

}  // namespace ft
