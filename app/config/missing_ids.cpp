#include "app/config/missing_ids.h"

#include <vector>

#include "app/hub/pull.h"
#include "engine/files/file.h"
#include "engine/files/hub_cache.h"

namespace ft {
namespace {

// Returns the names in a configuration that may be ids: models, tokenizers, data sets.
std::vector<HubName> names_in(const RunConfig& config) {
  const BaseModelConfig& m = config.model;
  std::vector<HubName> names{{HubKind::model, m.model_name_or_path, m.revision.value_or("main")}};
  const ObjectiveConfig& o = config.objective;
  for (const auto* model :
       {&m.tokenizer_name_or_path, &o.ref_model_name_or_path, &o.teacher_model_name_or_path,
        &o.reward_model_name_or_path, &o.value_model_name_or_path})
    if (*model && **model != m.model_name_or_path) names.push_back({HubKind::model, **model});
  for (const auto* list : {&config.data.datasets, &config.data.eval_datasets})
    for (const DatasetConfig& dataset : *list)
      names.push_back({HubKind::dataset, dataset.path, dataset.revision.value_or("main")});
  return names;
}

}  // namespace

void fetch_missing_ids(const RunConfig& config) {
  const std::filesystem::path cache = hub::cache_folder();
  Screen::Options options = Screen::standard_error(config.logging.progress);
  if (config.logging.progress == ProgressStyle::none) options.write = [](const std::string&) {};
  Screen screen(std::move(options));
  for (const HubName& name : names_in(config))
    if (!path_exists(name.id) && is_hub_id(name.id) && !find_in_hub_cache(cache, name))
      hub::pull(hub::find_access(), name, {}, screen);
}

}  // namespace ft
