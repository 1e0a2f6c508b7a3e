#include "engine/files/hub_cache.h"

#include <algorithm>

#include "engine/core/lower_case.h"
#include "engine/core/typography.h"
#include "engine/files/file.h"
#include "engine/files/near_path.h"

namespace ft {
namespace {

namespace fs = std::filesystem;

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// Letters, digits, _, - and . are allowed. A part begins and ends with a letter, a digit or _, and has no
// "--" or "..".
bool is_part(std::string_view part) {
  const auto allowed = [](char c) { return is_word(c) || c == '-' || c == '.'; };
  return !part.empty() && std::all_of(part.begin(), part.end(), allowed) && is_word(part.front()) &&
         is_word(part.back()) && part.find("--") == part.npos && part.find("..") == part.npos;
}

// Extensions of data files, which ids do not have.
constexpr std::string_view kFiles[] = {".json",  ".jsonl", ".ndjson",      ".csv", ".tsv", ".txt", ".parquet",
                                       ".arrow", ".gz",    ".zst",         ".lz4", ".xz",  ".bz2", ".zip",
                                       ".git",   ".gguf",  ".safetensors", ".bin", ".pt"};

std::optional<fs::path> snapshot(const fs::path& repository, const std::string& commit) {
  std::error_code none;
  const fs::path folder = repository / "snapshots" / commit;
  return fs::is_directory(folder, none) ? std::optional(folder) : std::nullopt;
}

std::string revision_option(const HubName& name) {
  return name.revision == "main" ? "" : " --revision " + printable(shell_line({name.revision}));
}

// Returns both commands that fetch it.
std::string commands_that_fetch(const HubName& name) {
  return str(hub_pull_command(name), " (or hf download ", name.id,
             name.kind == HubKind::dataset ? " --repo-type dataset" : "", revision_option(name), ")");
}

}  // namespace

bool is_hub_id(std::string_view text) {
  constexpr std::size_t kLongest = 96;
  const std::size_t slash = text.find('/');
  const std::string low = lower_case(std::string(text));
  const auto ends = [&](std::string_view end) { return low.ends_with(end); };
  return text.size() <= kLongest && std::none_of(std::begin(kFiles), std::end(kFiles), ends) &&
         is_part(text.substr(0, slash)) && (slash == text.npos || is_part(text.substr(slash + 1)));
}

fs::path hub_repository(const fs::path& cache, const HubName& name) {
  std::string folder = name.kind == HubKind::model ? "models--" : "datasets--";
  for (const char c : name.id) folder += c == '/' ? "--" : std::string(1, c);
  return cache / folder;
}

std::optional<fs::path> find_in_hub_cache(const fs::path& cache, const HubName& name) {
  if (cache.empty() || !is_hub_id(name.id)) return std::nullopt;
  require_inside(name.revision, "revision");
  const fs::path repository = hub_repository(cache, name);
  if (auto found = snapshot(repository, name.revision)) return found;  // the revision is a full commit
  std::error_code none;
  const fs::path reference = repository / "refs" / name.revision;
  if (!fs::is_regular_file(reference, none)) return std::nullopt;
  std::string commit = read_file(reference.string(), 1 << 10);
  while (!commit.empty() && (commit.back() == '\n' || commit.back() == '\r')) commit.pop_back();
  require_inside(commit, reference.string());
  return snapshot(repository, commit);
}

std::string hub_pull_command(const HubName& name) {
  return str("ft pull ", name.kind == HubKind::dataset ? "--dataset " : "", name.id, revision_option(name));
}

std::string not_in_hub_cache(const fs::path& cache, const HubName& name, const std::string& setting,
                             const fs::path& base) {
  std::error_code none;
  const char* const wanted = name.kind == HubKind::model ? "folder" : "file or folder";
  if (const std::string hint = hint_about_path(name.id, base); !hint.empty())
    return str(printable(name.id), ": no such ", wanted, hint, " (", setting,
               ")\n  as an id of the hub: ", cache.string(),
               " does not have it; this fetches it: ", commands_that_fetch(name));
  const bool other = name.revision != "main" && fs::is_directory(hub_repository(cache, name), none);
  return str(printable(name.id), ": no such ", wanted, ", and the hub's cache ", cache.string(),
             " does not have it", other ? " in revision " + printable(name.revision) : "", " (", setting,
             "). This fetches it: ", commands_that_fetch(name));
}

}  // namespace ft
