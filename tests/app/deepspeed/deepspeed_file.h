// DeepSpeed configurations for tests: one file for each key, with the other keys that it needs, and the
// report of applying the file to a run.
#pragma once
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "app/config/config.h"
#include "app/deepspeed/apply.h"
#include "app/deepspeed/key.h"
#include "app/deepspeed/read.h"
#include "app/deepspeed/rows.h"

namespace ft::deepspeed {

inline constexpr const char* kRun =
    R"({"model": {"model_name_or_path": "m"}, "data": {"datasets": [{"path": "d"}]})";

inline SettingsText run_with(const std::string& more) {
  return parse_settings(kRun + (more.empty() ? "" : ", " + more) + "}", "run.json");
}

// Applies the file to the run in `tree`, and returns the report.
inline Report applied(const std::string& file, SettingsText& tree, int ranks = 1,
                      std::int64_t hidden_size = 16) {
  static const std::vector<Setting> known = describe<RunConfig>();
  const auto config = read_settings<RunConfig>(tree, "");
  RunSide run{.settings = write_settings(config),
              .known = known,
              .gpu = false,
              .hidden_size = hidden_size,
              .ranks = ranks,
              .trains = true};
  Report report = apply(parse_file(file, "ds.json"), tree, run);
  settle(report, run.settings);
  return report;
}
inline Report applied(const std::string& file, const std::string& more = "", int ranks = 1) {
  SettingsText tree = run_with(more);
  return applied(file, tree, ranks);
}

// Returns a file that sets one key, and the other keys that this key needs.
inline Json file_with(const std::string& name, const Json& value, const Key& key) {
  Json file = Json::object();
  const auto put = [&](const std::string& path, const Json& v) {
    SettingsText tree{.value = file, .lines = {}, .name = ""};
    put_setting(tree, path, v, 1, path);
    file = tree.value;
  };
  const std::vector<std::string> types = split(key.of);
  for (const std::string block : {"optimizer", "scheduler"})
    if (name.starts_with(block + ".params.")) put(block + ".type", types.empty() ? "Adam" : types[0]);
  for (const std::string block :
       {"fp16", "bf16", "flops_profiler", "comms_logger", "tensorboard", "csv_monitor", "wandb"})
    if (name.starts_with(block + ".")) put(block + ".enabled", true);
  if (name.starts_with("curriculum_learning.")) put("curriculum_learning.enabled", true);
  if (name.starts_with("data_efficiency.")) put("data_efficiency.enabled", true);
  const std::string sampling = "data_efficiency.data_sampling", routing = "data_efficiency.data_routing";
  if (name.starts_with(sampling)) put(sampling + ".enabled", true);
  if (name.starts_with(sampling + ".curriculum_learning"))
    put(sampling + ".curriculum_learning.enabled", true);
  if (name.starts_with(routing)) put(routing + ".enabled", true);
  if (name.starts_with(routing + ".random_ltd")) put(routing + ".random_ltd.enabled", true);
  if (name == "zero_optimization.cpu_offload_param" || name.starts_with("zero_optimization.offload_param"))
    put("zero_optimization.stage", 3);
  for (const std::string block : {"zero_optimization.offload_param", "zero_optimization.offload_optimizer"})
    if (name == block + ".nvme_path" || name == block + ".buffer_count") put(block + ".device", "nvme");
  if (name == "zero_optimization.sub_group_size") put("zero_optimization.offload_optimizer.device", "nvme");
  put(name, value);
  return file;
}

// Returns values that the key accepts.
inline std::vector<Json> examples(const Key& key) {
  const std::vector<std::string> words = split(key.value.words);
  switch (key.value.kind) {
    case Kind::flag:
      return {true, false};
    case Kind::whole:
      return {std::max<std::int64_t>(1, static_cast<std::int64_t>(key.value.low))};
    case Kind::number:
      return {0.5};
    case Kind::text:
      return {words.empty() ? std::string("Adam") : words[0]};
    case Kind::list:
      return {Json::array({1})};
    case Kind::numbers2:
      return {Json::array({0.9, 0.99})};
    case Kind::any:
      break;
  }
  if (key.fate == Fate::block_off) return {{{"enabled", true}}, {{"enabled", false}}};
  return {1};
}

inline std::string example_name(const Key& key) {
  std::string name = key.name;
  if (const std::size_t star = name.find('*'); star != name.npos)
    name.replace(star, 1, name.starts_with("bfloat16") ? "enabled" : "seqlen");
  return name;
}

}  // namespace ft::deepspeed
