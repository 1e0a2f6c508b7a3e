#include "app/hub/selection.h"

#include <algorithm>

#include "data/files/files.h"
#include "data/files/path_pattern.h"
#include "engine/core/error.h"

namespace ft::hub {
namespace {

using Files = std::vector<RemoteFile>;

bool at_top(const std::string& path) { return path.find('/') == path.npos; }
bool is_safetensors(const std::string& path) { return at_top(path) && path.ends_with(".safetensors"); }

// Returns true for names that model.safetensors and its index have, and PEFT's adapters.
bool has_usual_name(const std::string& path) {
  return path == "model.safetensors" || path.starts_with("model-") || path.starts_with("adapter_model");
}

bool is_beside_weights(const std::string& path) {
  if (path.starts_with("additional_chat_templates/")) return path.ends_with(".jinja");
  if (!at_top(path)) return false;
  return (path.ends_with(".json") && !path.ends_with(".bin.index.json")) || path.ends_with(".model") ||
         path.ends_with(".jinja") || path == "merges.txt" || path == "vocab.txt";
}

bool any_named(const Files& files, const std::vector<std::string>& patterns) {
  return std::any_of(files.begin(), files.end(),
                     [&](const RemoteFile& f) { return matches_any(f.path, patterns); });
}

// Throws UserError (input) for a model whose weights ft cannot read, or of whose many files one is wanted.
void check_weights(const Files& all, const HubName& name) {
  if (any_named(all, {"*.gguf"}))
    throw UserError(Exit::input,
                    str(name.id,
                        ": has GGUF files and no safetensors; choose one, for example with --include "
                        "'*Q4_K_M.gguf'"));
  if (any_named(all, {"*.bin", "*.pt", "*.pth", "*.msgpack", "*.h5"}))
    throw UserError(Exit::input,
                    str(name.id,
                        ": has no safetensors, and ft reads no pickles; look for a revision with "
                        "safetensors among its pull requests (--revision refs/pr/1), or fetch all "
                        "with --include '*'"));
}

// Returns a model's needed files. Some repositories have the weights twice, also under other names.
Files needed_of_model(const Files& all, const HubName& name) {
  const bool usual = std::any_of(all.begin(), all.end(), [](const RemoteFile& f) {
    return is_safetensors(f.path) && has_usual_name(f.path);
  });
  Files needed;
  bool weights = false;
  for (const RemoteFile& file : all) {
    const bool weight = is_safetensors(file.path) && (!usual || has_usual_name(file.path));
    weights = weights || weight;
    if (weight || is_beside_weights(file.path)) needed.push_back(file);
  }
  if (!weights) check_weights(all, name);
  return needed;
}

Files needed_of_dataset(const Files& all) {
  Files needed;
  bool data = false;
  for (const RemoteFile& file : all) {
    const std::string own = file.path.substr(file.path.rfind('/') + 1);
    const bool about = own == "README.md" || own == "dataset_info.json" || own == "dataset_infos.json";
    const bool read = !own.starts_with('.') && is_data_file(file.path);
    data = data || read;
    if (about || read) needed.push_back(file);
  }
  return data ? needed : Files{};
}

}  // namespace

bool matches_any(const std::string& path, const std::vector<std::string>& patterns) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) {
    return name_matches(pattern.ends_with('/') ? pattern + "*" : pattern, path);
  });
}

Files select_files(const Files& all, const HubName& name, const Patterns& patterns) {
  const bool model = name.kind == HubKind::model;
  Files chosen = all;
  if (patterns.include.empty())
    chosen = model ? needed_of_model(all, name) : needed_of_dataset(all);
  else
    std::erase_if(chosen, [&](const RemoteFile& f) { return !matches_any(f.path, patterns.include); });
  std::erase_if(chosen, [&](const RemoteFile& f) { return matches_any(f.path, patterns.exclude); });
  if (!chosen.empty()) return chosen;
  if (!patterns.include.empty() || !patterns.exclude.empty())
    throw UserError(Exit::input, str(name.id, ": none of its ", all.size(), " files matches the patterns"));
  throw UserError(Exit::input, str(name.id, ": has no files that ft reads; --include '*' fetches all ",
                                   all.size(), " all the same"));
}

}  // namespace ft::hub
