#include "engine/train/reports/tracked.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

namespace ft {
namespace {

bool is_name(const std::string& key) {
  return !key.empty() &&
         std::all_of(key.begin(), key.end(), [](unsigned char c) { return std::isalnum(c) || c == '_'; });
}

void flatten(const Json& node, const std::string& name, std::vector<std::pair<std::string, Json>>& leaves) {
  const bool section = node.is_object() && !node.empty() &&
                       std::ranges::all_of(node.items(), [](const auto& at) { return is_name(at.key()); });
  if (!section) {
    leaves.emplace_back(name, node);
    return;
  }
  for (const auto& [key, value] : node.items()) flatten(value, name.empty() ? key : name + "." + key, leaves);
}

}  // namespace

std::vector<std::pair<std::string, Json>> flat_settings(const std::string& settings) {
  std::vector<std::pair<std::string, Json>> leaves;
  if (settings.empty()) return leaves;
  Json tree = parse_json(settings, {"run.json"});
  tree.erase("$schema");
  flatten(tree, "", leaves);
  return leaves;
}

std::string plain_text(const Json& leaf) {
  return leaf.is_string() ? leaf.get<std::string>() : json_text(leaf, -1);
}

Measures numbers_of(const Json& row) {
  Measures numbers;
  for (const auto& [name, value] : row.items())
    if (value.is_number() && name != "step" && std::isfinite(value.get<double>()))
      numbers.emplace_back(name, value.get<double>());
  return numbers;
}

Measures system_memory() {
  double total = 0, available = 0, pages = 0;
  std::string key, unit;
  std::ifstream machine("/proc/meminfo");
  for (double kib = 0; machine >> key >> kib; std::getline(machine, unit)) {
    if (key == "MemTotal:") total = kib;
    if (key == "MemAvailable:") available = kib;
  }
  std::ifstream process("/proc/self/statm");
  if (!(process >> pages >> pages) || total <= 0) return {};
  return {{"system/memory_percent", 100 * (total - available) / total},
          {"system/memory_available_mb", available / 1024},
          {"system/process_memory_mb", pages * static_cast<double>(sysconf(_SC_PAGESIZE)) / 0x1p20}};
}

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace ft
