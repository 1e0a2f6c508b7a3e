#include "engine/files/checkpoint_folder.h"

#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/files/file.h"
#include "engine/files/hash.h"
#include "engine/files/links.h"
#include "engine/files/parallel.h"

namespace ft {
namespace {

namespace fs = std::filesystem;

constexpr const char* kManifest = "manifest.json";
constexpr const char* kPrefix = "checkpoint-";
constexpr const char* kFormat = "ft checkpoint";
constexpr std::int64_t kVersion = 1;
constexpr std::int64_t kLargest = 1 << 30;  // bytes of a manifest, which may hold answers of a run

[[noreturn]] void refuse(const std::string& path, const std::string& problem) {
  throw UserError(Exit::checkpoint, printable(path) + ": " + problem);
}

// Returns the text of a manifest. It contains the hash of the text without the hash, which detects any wrong
// bit.
std::string manifest_text(Json manifest) {
  manifest.erase("sha256");
  manifest["sha256"] = sha256(json_text(manifest));
  return json_text(manifest) + "\n";
}

// "checkpoint-12" -> 12
std::optional<std::int64_t> step_of(const std::string& name) {
  const std::string prefix = kPrefix;
  if (name.rfind(prefix, 0) != 0 || name.size() == prefix.size()) return std::nullopt;
  std::int64_t step = 0;
  const char* end = name.data() + name.size();
  const auto [stop, problem] = std::from_chars(name.data() + prefix.size(), end, step);
  if (problem != std::errc() || stop != end || step < 0 || name != prefix + std::to_string(step))
    return std::nullopt;
  return step;
}

// Throws UserError (checkpoint) if a path is no checkpoint at all, with the reason.
void require_checkpoint(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) refuse(path, "there is no such checkpoint");
  if (!S_ISDIR(info.st_mode)) refuse(path, "is a file; a checkpoint is a folder");
  if (path_exists(join_path(path, kManifest))) return;
  const auto steps = list_checkpoints(path);
  if (!steps.empty())
    refuse(path,
           "is not a checkpoint but contains some; the newest is " + checkpoint_path(path, steps.back()));
  if (path_exists(join_path(path, "adapter_config.json")))
    refuse(path,
           "contains an adapter but no checkpoint of ft (no manifest.json); lora.adapter_name_or_path starts "
           "from an adapter");
  refuse(path, "is not a checkpoint of ft: it has no manifest.json");
}

JsonObject read_manifest(const std::string& path) {
  const std::string name = join_path(path, kManifest);
  const std::string text = read_file(name, kLargest, Exit::checkpoint);
  const JsonObject manifest =
      JsonObject::parse(text, {name}, {.max_bytes = std::size_t{kLargest}, .exit = Exit::checkpoint});
  if (manifest.text_or("format", "") != kFormat)
    refuse(path, "is not a checkpoint of ft according to its manifest.json");
  const std::int64_t version = manifest.integer("version", 1);
  if (version > kVersion)
    refuse(path, str("was written by a newer ft: format ", version, ", this one reads up to ", kVersion));
  if (manifest_text(manifest.json()) != text)
    refuse(name, "is damaged: its SHA-256 is not the one it states");
  return manifest;
}

enum class Verify : std::uint8_t { sizes, hashes };

void verify(const std::string& folder, const std::string& name, const JsonObject& entry, Verify what) {
  require_inside(name, join_path(folder, kManifest), Exit::checkpoint);
  const std::string path = join_path(folder, name);
  if (!path_exists(path)) refuse(path, "is missing from the checkpoint");
  const InputFile file(path, Exit::checkpoint);
  const std::int64_t bytes = entry.integer("bytes", 0);
  if (file.size() != bytes)
    refuse(path, str("is damaged: ", file.size(), " bytes, the manifest states ", bytes));
  if (what == Verify::hashes && sha256(file) != entry.text("sha256"))
    refuse(path, "is damaged: its SHA-256 is not the manifest's");
}

Checkpoint verified(const std::string& path, Verify what) {
  require_checkpoint(path);
  const JsonObject manifest = read_manifest(path);
  const JsonObject files = manifest.object("files");
  Checkpoint out{path, manifest.integer("step", 0), manifest.object("about"), files.keys()};
  in_parallel(static_cast<std::int64_t>(out.files.size()), [&](std::int64_t i) {
    const std::string& name = out.files[static_cast<std::size_t>(i)];
    verify(path, name, files.object(name), what);
  });
  return out;
}

}  // namespace

std::string checkpoint_path(const std::string& output_dir, std::int64_t step) {
  return join_path(output_dir, kPrefix + std::to_string(step));
}

CheckpointWriter::CheckpointWriter(const std::string& output_dir, std::int64_t step)
    : path_(checkpoint_path(output_dir, step)), step_(step), staged_(path_) {}

std::string CheckpointWriter::commit(const Json& about) {
  require(about.is_object(), "the description of a checkpoint must be an object");
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(path())) {
    const fs::file_type type = entry.symlink_status().type();
    if (type == fs::file_type::directory) continue;
    const std::string name = entry.path().lexically_relative(path()).string();
    refuse_links(path(), name);
    require(type == fs::file_type::regular, "a checkpoint holds files and folders only");
    names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  std::vector<Json> entries(names.size());
  in_parallel(static_cast<std::int64_t>(names.size()), [&](std::int64_t i) {
    const std::string& name = names[static_cast<std::size_t>(i)];
    const InputFile file(join_path(path(), name), Exit::storage);
    require_below(path(), name, file.state());
    entries[static_cast<std::size_t>(i)] = {{"bytes", file.size()}, {"sha256", sha256(file)}};
  });
  Json files = Json::object();
  for (std::size_t i = 0; i < names.size(); ++i) files[names[i]] = entries[i];
  const Json manifest = {
      {"format", kFormat}, {"version", kVersion}, {"step", step_}, {"about", about}, {"files", files}};
  write_file(join_path(path(), kManifest), manifest_text(manifest));
  staged_.commit(true);
  return path_;
}

Checkpoint open_checkpoint(const std::string& path) { return verified(path, Verify::hashes); }

Checkpoint read_checkpoint(const std::string& path) { return verified(path, Verify::sizes); }

std::vector<std::int64_t> list_checkpoint_names(const std::string& output_dir) {
  std::vector<std::int64_t> steps;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(output_dir, ignored))
    if (const auto step = step_of(entry.path().filename().string())) steps.push_back(*step);
  std::sort(steps.begin(), steps.end());
  return steps;
}

std::vector<std::int64_t> list_checkpoints(const std::string& output_dir) {
  std::vector<std::int64_t> steps = list_checkpoint_names(output_dir);
  std::erase_if(steps, [&](std::int64_t step) {
    return !path_exists(join_path(checkpoint_path(output_dir, step), kManifest));
  });
  return steps;
}

NewestCheckpoint find_newest_checkpoint(const std::string& output_dir) {
  NewestCheckpoint out;
  auto steps = list_checkpoint_names(output_dir);
  for (; !steps.empty(); steps.pop_back()) {
    try {
      out.checkpoint = open_checkpoint(checkpoint_path(output_dir, steps.back()));
      return out;
    } catch (const UserError& e) {
      out.skipped.emplace_back(e.what());
    }
  }
  return out;
}

void prune_checkpoints(const std::string& output_dir, std::int64_t keep,
                       const std::vector<std::int64_t>& spared) {
  const auto steps = list_checkpoints(output_dir);
  auto left = static_cast<std::int64_t>(steps.size());
  for (std::size_t i = 0; i + 1 < steps.size() && left > keep; ++i) {
    if (std::find(spared.begin(), spared.end(), steps[i]) != spared.end()) continue;
    remove_folder(checkpoint_path(output_dir, steps[i]));
    --left;
  }
}

}  // namespace ft
