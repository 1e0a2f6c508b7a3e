#include "app/config/from_deepspeed.h"

#include <nlohmann/json.hpp>

#include "app/deepspeed/apply.h"
#include "engine/files/file.h"
#include "models/text_config.h"

namespace ft {
namespace {

// Returns the model's hidden_size (T5: d_model). Returns 0 if it cannot be read; the code that loads the
// model reports why.
std::int64_t hidden_size(const BaseModelConfig& model) {
  try {
    const std::string file = join_path(model.folder(), "config.json");
    if (!path_exists(file)) return 0;
    const JsonObject config = text_settings(JsonObject::read(file));
    for (const char* name : {"hidden_size", "d_model"})
      if (config.has(name)) return config.integer(name, 1, 1 << 24);
  } catch (const UserError&) {
  }
  return 0;
}

Json in_effect(const RunConfig& config) {
  Json all = write_settings(config);
  all["training"]["bf16"] = config.dtype() == DType::bf16;
  return all;
}

}  // namespace

std::shared_ptr<deepspeed::Report> take_deepspeed(SettingsText& tree, const RunConfig& config,
                                                  const std::filesystem::path& folder, StepRanks size) {
  const SettingsText file = deepspeed::file_of(tree, folder);
  tree.value.erase("deepspeed");
  const DistributedConfig& d = config.distributed;
  const auto ranks = static_cast<int>(d.nproc_per_node.value_or(1) * d.nnodes);
  const deepspeed::RunSide run{.settings = in_effect(config),
                               .known = describe<RunConfig>(),
                               .gpu = config.on_gpu(),
                               .hidden_size = hidden_size(config.model),
                               .ranks = size.ranks > 0 ? size.ranks : ranks,
                               .trains = size.trains};
  deepspeed::Report report = deepspeed::apply(file, tree, run);
  if (report.refused()) {
    deepspeed::settle(report, run.settings);
    throw deepspeed::Refused(std::move(report));
  }
  return std::make_shared<deepspeed::Report>(std::move(report));
}

void settle_report(deepspeed::Report& report, const RunConfig& config) {
  deepspeed::settle(report, in_effect(config));
}

}  // namespace ft
