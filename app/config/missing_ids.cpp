#include "app/config/missing_ids.h"

#include <algorithm>
#include <vector>

#include "app/hub/pull.h"
#include "engine/files/file.h"
#include "engine/files/hub_cache.h"
#include "engine/files/near_path.h"

namespace ft {
namespace {

namespace fs = std::filesystem;

// A name in a configuration that may be an id.
struct Wanted {
  HubName name;
  bool weights = false;
};

// Returns the names of models, tokenizers and data sets. The tokenizer is the last, since a model of the same
// name brings it.
std::vector<Wanted> names_in(const RunConfig& config) {
  const BaseModelConfig& m = config.model;
  std::vector<Wanted> names{{{HubKind::model, m.model_name_or_path, m.revision.value_or("main")}, true}};
  const ObjectiveConfig& o = config.objective;
  for (const auto* model : {&o.ref_model_name_or_path, &o.teacher_model_name_or_path,
                            &o.reward_model_name_or_path, &o.value_model_name_or_path})
    if (*model && **model != m.model_name_or_path) names.push_back({{HubKind::model, **model}, true});
  for (const auto* list : {&config.data.datasets, &config.data.eval_datasets})
    for (const DatasetConfig& dataset : *list)
      names.push_back({{HubKind::dataset, dataset.path, dataset.revision.value_or("main")}});
  if (m.tokenizer_name_or_path && m.tokenizer_name_or_path != m.model_name_or_path)
    names.push_back({{HubKind::model, *m.tokenizer_name_or_path}});
  return names;
}

bool has_weights(const fs::path& folder) {
  std::error_code none;
  return std::any_of(fs::directory_iterator(folder, none), fs::directory_iterator(), [](const auto& entry) {
    std::error_code broken;
    return entry.path().extension() == ".safetensors" && entry.exists(broken);
  });
}

// Returns the patterns of a tokenizer's files, at the top of a model's folder.
hub::Patterns tokenizer_files() {
  return {.include = {"*.json", "*.model", "*.jinja", "merges.txt", "vocab.txt"},
          .exclude = {"*/*", "*.index.json"}};
}

bool is_missing(const Wanted& wanted) {
  if (path_exists(wanted.name.id) || !is_hub_id(wanted.name.id)) return false;
  const auto folder = find_in_hub_cache(hub::cache_folder(), wanted.name);
  return !folder || (wanted.weights && !has_weights(*folder));
}

}  // namespace

std::vector<std::string> missing_ids(const RunConfig& config) {
  std::vector<std::string> ids;
  for (const Wanted& wanted : names_in(config))
    if (is_missing(wanted) && hint_about_path(wanted.name.id).empty()) ids.push_back(wanted.name.id);
  return ids;
}

bool fetch_missing_ids(const RunConfig& config) {
  Screen::Options options = Screen::standard_error(config.logging.progress);
  if (config.logging.progress == ProgressStyle::none) options.write = [](const std::string&) {};
  Screen screen(std::move(options));
  bool fetched = false;
  for (const Wanted& wanted : names_in(config)) {
    if (!is_missing(wanted)) continue;
    const bool tokenizer = wanted.name.kind == HubKind::model && !wanted.weights;
    hub::pull(hub::find_access(), wanted.name, tokenizer ? tokenizer_files() : hub::Patterns{}, screen);
    fetched = true;
  }
  return fetched;
}

}  // namespace ft
