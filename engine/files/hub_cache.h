// Models and data sets of huggingface.co on this machine: the cache that huggingface_hub keeps
// (huggingface.co/docs/huggingface_hub/guides/manage-cache). app/hub fetches them.
//
//   CACHE/models--org--name/refs/main                a commit
//   CACHE/models--org--name/snapshots/COMMIT/...     the files, links to blobs
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace ft {

enum class HubKind { model, dataset };

// An id and a revision: a branch, a tag or a commit.
struct HubName {
  HubKind kind = HubKind::model;
  std::string id;
  std::string revision = "main";
};

// Returns true for name or org/name as the hub allows them, except names of data files. A path may look like
// an id.
bool is_hub_id(std::string_view text);

// Returns the folder of all revisions: CACHE/models--org--name.
std::filesystem::path hub_repository(const std::filesystem::path& cache, const HubName& name);

// Returns the folder of its files; empty if the cache does not have it. Throws UserError (input) if the
// revision would lead out of the cache.
std::optional<std::filesystem::path> find_in_hub_cache(const std::filesystem::path& cache,
                                                       const HubName& name);

// Returns the message for an id or path that is neither a folder nor in the cache, with the command that
// fetches it. If it may be a mistyped path, the message first lists similar names. `setting`: the setting
// that holds it. A path is relative to `base`.
std::string not_in_hub_cache(const std::filesystem::path& cache, const HubName& name,
                             const std::string& setting, const std::filesystem::path& base = {});
// Returns the command that fetches it: "ft pull --dataset org/name --revision v2".
std::string hub_pull_command(const HubName& name);

}  // namespace ft
