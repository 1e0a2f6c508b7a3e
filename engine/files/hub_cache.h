// Models and data sets of huggingface.co that are on this machine: the cache that huggingface_hub keeps
// (huggingface.co/docs/huggingface_hub/guides/manage-cache). ft opens no connection.
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

// An id, and which of its versions: a branch, a tag or a commit.
struct HubName {
  HubKind kind = HubKind::model;
  std::string id;
  std::string revision = "main";
};

// name or org/name, as the hub allows them, but no name of a data file. A path may look the same.
bool is_hub_id(std::string_view text);

// The folder of its files; nothing where the cache does not have it. UserError (exit 3) for a revision that
// would lead out of the cache.
std::optional<std::filesystem::path> find_in_hub_cache(const std::filesystem::path& cache,
                                                       const HubName& name);

// The message for a user who asked for it: it is neither a folder nor in the cache, and the command that
// fetches it; first, for what may be a mistyped path, the names beside it. `setting` asked for it; a path is
// relative to `base`.
std::string not_in_hub_cache(const std::filesystem::path& cache, const HubName& name,
                             const std::string& setting, const std::filesystem::path& base = {});
// hf download org/name --repo-type dataset --revision v2
std::string hub_download_command(const HubName& name);

}  // namespace ft
