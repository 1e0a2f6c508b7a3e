#include "app/push/choice.h"

#include <algorithm>

#include "data/files/path_pattern.h"
#include "engine/core/typography.h"
#include "engine/core/utf8.h"
#include "engine/files/file.h"
#include "engine/files/folder_lock.h"

namespace ft::hub {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kLargestText = std::int64_t{1} << 20;  // bytes of a text that may name paths

struct Kind {
  const char* pattern;
  const char* why;
};

// Files that no hub gets, and files that it gets only if a pattern includes them. A pattern without "/" is
// compared with each part of a path.
constexpr Kind kNever[] = {{".git", "git's own"},
                           {".cache", "a cache"},
                           {"*.tmp-ft*", "unfinished"},
                           {"*.incomplete", "unfinished"},
                           {"__pycache__", "a cache"}};
constexpr Kind kUsuallyNot[] = {{"checkpoint-*", "a checkpoint"},
                                {"log.jsonl", "a log"},
                                {"*.log", "a log"},
                                {"runs", "a log"},
                                {"events.out.tfevents.*", "a log"},
                                {"metrics.csv", "a log"},
                                {"trainer_state.json", "a log"},
                                {"ranks", "a log"},
                                {"nonfinite.jsonl", "a log"},
                                {"wandb", "a log"},
                                {"mlruns", "a log"},
                                {"csv", "a log"},
                                {"run_facts.json", "a log"},
                                {"rollouts.jsonl", "answers"},
                                {"rollout_adapter", "of the run"},
                                {"reference.safetensors", "of the run"},
                                {"replaced-run", "the run before"},
                                {"replaced-run.part", "the run before"},
                                {"generated_predictions.txt", "answers"},
                                {"samples.json", "answers"},
                                {"predict_results.json", "answers"},
                                {"report.html", "a log"},
                                {"loss.svg", "a log"},
                                {".*", "hidden"}};

// Returns the entry that fits the name of a file or folder; null: none does.
template <std::size_t Count>
const Kind* fitting(const Kind (&kinds)[Count], const std::string& name) {
  const auto found = std::find_if(std::begin(kinds), std::end(kinds),
                                  [&](const Kind& kind) { return name_matches(kind.pattern, name); });
  return found == std::end(kinds) ? nullptr : found;
}

bool is_weights(const std::string& path) { return path.ends_with(".safetensors") || path.ends_with(".gguf"); }

// Walks through a folder and sorts its files.
class Chooser {
 public:
  Chooser(const fs::path& folder, const Patterns& patterns) : folder_(folder), patterns_(patterns) {}

  Choice run() {
    visit(folder_, "");
    std::sort(choice_.files.begin(), choice_.files.end(),
              [](const LocalFile& a, const LocalFile& b) { return a.path < b.path; });
    return std::move(choice_);
  }

 private:
  bool asked_for() const { return !patterns_.include.empty(); }
  void leave_out(const std::string& path, const std::string& why) { choice_.left_out.push_back({path, why}); }

  void visit(const fs::path& at, const std::string& prefix) {
    std::error_code error;
    std::vector<fs::directory_entry> entries;
    for (auto it = fs::directory_iterator(at, error); !error && it != fs::directory_iterator();
         it.increment(error))
      entries.push_back(*it);
    if (error) throw UserError(Exit::input, str(at.string(), ": cannot be read: ", error.message()));
    std::sort(entries.begin(), entries.end());
    for (const fs::directory_entry& entry : entries) {
      const std::string name = entry.path().filename().string(), path = prefix + name;
      const bool folder = entry.is_directory(error);
      const Kind* kind = fitting(kNever, name);
      if (!kind && !asked_for()) kind = fitting(kUsuallyNot, name);
      if (kind)
        leave_out(folder ? path + "/" : path, kind->why);
      else if (folder && entry.is_symlink(error))
        leave_out(path + "/", "a link to a folder");
      else if (folder)
        visit(entry.path(), path + "/");
      else
        take(entry, path);
    }
  }

  void take(const fs::directory_entry& entry, const std::string& path) {
    std::error_code none;
    if (matches_any(path, patterns_.exclude)) return;
    if (asked_for() && !matches_any(path, patterns_.include)) return;
    if (!entry.is_regular_file(none)) return leave_out(path, "no file");
    require_inside(path, folder_.string());
    if (!is_utf8(path))
      throw UserError(Exit::input,
                      str(printable(path), ": its name is not UTF-8, which a hub needs; rename it"));
    const InputFile open(entry.path().string());
    LocalFile file{.path = path, .size = open.size(), .source = entry.path(), .state = open.state()};
    if (!asked_for() && fs::path(path).filename() != "adapter_config.json")
      if (const std::string place = machine_path_of(file); !place.empty())
        return leave_out(path, "names " + printable(place, 80));
    choice_.files.push_back(std::move(file));
  }

  static std::string machine_path_of(const LocalFile& file) {
    if (file.size > kLargestText || is_weights(file.path)) return "";
    const std::string text = beginning_of(file, kLargestText);
    return is_utf8(text) ? machine_path_in(text) : "";
  }

  const fs::path& folder_;
  const Patterns& patterns_;
  Choice choice_;
};

// Throws UserError (input) if the folder is a run's and the run has not written its result.
void require_result(const fs::path& folder, const Choice& choice) {
  const bool result = std::any_of(choice.files.begin(), choice.files.end(),
                                  [](const LocalFile& f) { return is_weights(f.path); });
  const bool run =
      path_exists((folder / "run.json").string()) || path_exists((folder / "log.jsonl").string());
  if (!result && run)
    throw UserError(Exit::input,
                    str(printable(folder.string()),
                        ": its run has not finished, so it holds no adapter and no model; go on with it:\n  ",
                        shell_line({"ft", "train", "--config", (folder / "run.json").string(),
                                    "training.resume_from_checkpoint=auto"})));
}

bool begins_path(char before) {
  return std::string_view("\"'` \t\n=:,([<").find(before) != std::string_view::npos;
}

// Returns true for a path that tells something about this machine: it lies in the user's folders, or the
// folder and the next name in it exist here and are not the system's.
bool is_of_this_machine(std::string path) {
  const std::size_t name = path.find_first_not_of('/');
  if (name == path.npos || name == 2) return false;  // slashes alone, or the host of an address
  path = path.substr(name - 1);                      // file:///home/anna
  for (const std::string& own : {home_expanded("~"), fs::current_path().string()})
    if (own.size() > 1 && (path == own || path.starts_with(own + "/"))) return true;
  for (const char* system :
       {"/usr/", "/bin/", "/sbin/", "/lib/", "/etc/", "/dev/", "/proc/", "/sys/", "/run/"})
    if (path.starts_with(system)) return false;
  const std::size_t second = path.find('/', 1);
  return second != path.npos && second + 1 < path.size() &&
         path_exists(path.substr(0, path.find('/', second + 1)));
}

}  // namespace

std::string machine_path_in(const std::string& text) {
  for (std::size_t at = text.find('/'); at != text.npos; at = text.find('/', at + 1)) {
    if (at > 0 && !begins_path(text[at - 1])) continue;
    const std::string path = text.substr(at, text.find_first_of(" \"'`\n\r\t<>|*?,;)]}\\", at) - at);
    if (is_of_this_machine(path)) return path;
  }
  return "";
}

Choice choose_files(const fs::path& folder, HubKind kind, const Patterns& patterns) {
  std::error_code none;
  if (!fs::is_directory(folder, none))
    throw UserError(Exit::config, str("ft push: ", printable(folder.string()),
                                      " is no folder; give the folder of an adapter, a model or data"));
  FolderLock lock;
  if (!lock.take(folder.string()))
    throw UserError(Exit::config, str("ft push: a run is going on in ", printable(folder.string()),
                                      "; send its result when it has ended"));
  Choice choice = Chooser(folder, patterns).run();
  if (kind == HubKind::model && patterns.include.empty()) require_result(folder, choice);
  if (choice.files.empty())
    throw UserError(Exit::input,
                    str(printable(folder.string()), ": has no files to send",
                        choice.left_out.empty() ? "" : "; --include sends files that are left out"));
  return choice;
}

}  // namespace ft::hub
