#include "app/files/sentence_files.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "app/config/head_settings.h"
#include "engine/files/file.h"
#include "engine/files/json.h"
#include "engine/train/objectives/list.h"

namespace ft {
namespace {

Json module_json(int index, const char* folder, const char* type) {
  return {{"idx", index},
          {"name", std::to_string(index)},
          {"path", folder},
          {"type", str("sentence_transformers.models.", type)}};
}

// Returns keys for readers of every version: versions before 4 read a key for each mode.
Json pooling_json(std::int64_t width, PoolingMode mode) {
  return {{"word_embedding_dimension", width},
          {"pooling_mode_cls_token", false},
          {"pooling_mode_mean_tokens", mode == PoolingMode::mean},
          {"pooling_mode_max_tokens", false},
          {"pooling_mode_mean_sqrt_len_tokens", false},
          {"pooling_mode_weightedmean_tokens", false},
          {"pooling_mode_lasttoken", mode == PoolingMode::lasttoken},
          {"include_prompt", true}};
}

void write_json(const std::string& folder, const char* name, const Json& j) {
  write_file(join_path(folder, name), json_text(j) + "\n");
}

}  // namespace

void write_sentence_files(const std::string& folder, const BuiltModel& b) {
  namespace fs = std::filesystem;
  if (b.objective.type != &objectives::kEmbed) return;
  const std::string pooling = join_path(folder, kPoolingFolder);
  fs::create_directories(pooling);
  write_json(pooling, "config.json",
             pooling_json(b.model().vocab_size(), b.objective.pooling_mode.value_or(PoolingMode::lasttoken)));
  Json modules = {module_json(0, "", "Transformer"), module_json(1, kPoolingFolder, "Pooling")};
  if (b.objective.normalize_embeddings.value_or(true)) {
    fs::create_directories(join_path(folder, kNormalizeFolder));
    write_json(join_path(folder, kNormalizeFolder), "config.json", Json::object());
    modules.push_back(module_json(2, kNormalizeFolder, "Normalize"));
  }
  write_json(folder, kSentenceModules, modules);
  write_json(folder, kSentenceSettings, {{"max_seq_length", b.longest}, {"do_lower_case", false}});
  write_json(folder, kSentenceConfig, {{"prompts", Json::object()}, {"similarity_fn_name", "cosine"}});
}

void require_sentence_files(const std::string& folder) {
  const auto trained = trained_objective(folder, "");
  if (trained && trained->type == &objectives::kEmbed && !path_exists(join_path(folder, kSentenceModules)))
    throw UserError(Exit::input, str(folder, ": has no ", kSentenceModules,
                                     ", which says how the model embeds; give the result of the run, or "
                                     "merge the checkpoint first (ft export --to hf)"));
}

void copy_sentence_files(const std::string& from, const std::string& to) {
  const auto copy = [&](const std::string& name) {
    const std::string file = join_path(from, name);
    if (path_exists(file)) write_file(join_path(to, name), read_file(file, std::int64_t{1} << 20));
  };
  for (const char* folder : {kPoolingFolder, kNormalizeFolder}) {
    if (!path_exists(join_path(from, folder))) continue;
    std::filesystem::create_directories(join_path(to, folder));
    copy(join_path(folder, "config.json"));
  }
  for (const char* name : {kSentenceModules, kSentenceSettings, kSentenceConfig}) copy(name);
}

bool is_sentence_file(const std::filesystem::path& file) {
  constexpr std::array kNames = {kSentenceModules, kPoolingFolder, kNormalizeFolder, kSentenceSettings,
                                 kSentenceConfig};
  return std::find(kNames.begin(), kNames.end(), file.filename().string()) != kNames.end();
}

}  // namespace ft
