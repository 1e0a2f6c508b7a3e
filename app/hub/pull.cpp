#include "app/hub/pull.h"

#include <algorithm>
#include <iostream>
#include <map>
#include <utility>
#include <vector>

#include "app/hub/download.h"
#include "app/screen/format.h"
#include "engine/core/typography.h"
#include "engine/files/file.h"
#include "engine/files/room.h"

namespace ft::hub {
namespace {

// A pull, from the list of files to the snapshot.
class Pull {
 public:
  Pull(const Access& access, const HubName& name, Screen& screen, const TransferLimits& limits)
      : access_(access),
        name_(name),
        screen_(screen),
        transfers_(access, screen, limits),
        repository_(access.cache, name) {}

  Pulled run(const Patterns& patterns) {
    const auto begun = std::chrono::steady_clock::now();
    try {
      find_files(patterns);
      check_room();
      fetch_all();
    } catch (const Stopped&) {
      throw UserError(Exit::preempted, stopped_text());
    }
    screen_.clear();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begun;
    std::vector<std::string> paths;
    for (const RemoteFile& file : listing_.files) paths.push_back(file.path);
    return {.folder = repository_.publish(listing_, name_.revision),
            .files = std::ssize(listing_.files),
            .bytes = bytes_,
            .received = progress_.moved,
            .seconds = seconds.count(),
            .paths = std::move(paths)};
  }

 private:
  // Lists the files and chooses among them; small ones come first.
  void find_files(const Patterns& patterns) {
    const auto http = transfers_.connection();
    Client client(access_, name_, *http);
    listing_ = transfers_.patiently([&] { return client.listing(); });
    listing_.files = select_files(listing_.files, name_, patterns);
    for (RemoteFile& file : listing_.files)
      if (file.size < 0 || file.hash.empty())
        file = transfers_.patiently([&] { return client.describe(listing_.commit, file.path); });
    std::stable_sort(listing_.files.begin(), listing_.files.end(),
                     [](const RemoteFile& a, const RemoteFile& b) { return a.size < b.size; });
    for (const RemoteFile& file : listing_.files)
      if ((bytes_ += file.size) > kMostBytes)
        throw UserError(Exit::input,
                        str(name_.id, ": its files have more than ", show::file_size(kMostBytes)));
  }

  // Finds the files that are not there; two with the same contents are one. Throws UserError (input) if they
  // differ in size all the same, (storage) if the disk has too little space.
  void check_room() {
    std::int64_t missing = 0;
    std::map<std::string, std::int64_t> sizes;  // by hash
    for (const RemoteFile& file : listing_.files) {
      const auto [known, first] = sizes.emplace(file.hash, file.size);
      if (known->second != file.size)
        throw UserError(Exit::input, str(name_.id, ": ", printable(file.path), ": has the hash ", file.hash,
                                         " of another file, and another size"));
      if (repository_.has(file) || !first) {
        progress_.there += file.size;
      } else {
        wanted_.push_back(&file);
        missing += repository_.missing(file);
      }
    }
    const auto free = free_bytes(access_.cache.string());
    if (free && missing > *free)
      throw UserError(Exit::storage, str(name_.id, ": ", show::file_size(missing), " are to be fetched, and ",
                                         access_.cache.string(), " has ", show::file_size(*free),
                                         " left; HF_HUB_CACHE names another folder"));
  }

  // Fetches files in several threads, and shows the progress in this one.
  void fetch_all() {
    if (wanted_.empty()) return;
    repository_.create();
    screen_.line(begin_line(name_.id, std::ssize(wanted_), bytes_ - progress_.there));
    TransferLine line(name_.id, bytes_, progress_.there);
    transfers_.run(wanted_.size(), line, [this](HttpClient& http, std::size_t i) {
      Client client(access_, name_, http);
      fetch({client, repository_, listing_.commit, progress_, [this] { return transfers_.stopping(); },
             transfers_.pause()},
            *wanted_[i]);
    });
  }

  std::string stopped_text() const {
    screen_.clear();
    return str("stopped by ", transfers_.signal_name(), " with ", show::file_size(progress_.there), " of ",
               show::file_size(bytes_), "; the same command goes on from here");
  }

  const Access& access_;
  const HubName& name_;
  Screen& screen_;
  Transfers transfers_;
  Progress& progress_ = transfers_.progress();
  Repository repository_;
  Listing listing_;
  std::int64_t bytes_ = 0;                 // of all files
  std::vector<const RemoteFile*> wanted_;  // files that are not there
};

// Returns the model that was fetched, as a run names it: the id, or a GGUF file. Empty for an adapter.
std::string fetched_model(const HubName& name, const Pulled& pulled) {
  std::string gguf;
  bool config = false;
  for (const std::string& path : pulled.paths) {
    config = config || path == "config.json";
    if (path.ends_with(".gguf") && (gguf.empty() || path < gguf)) gguf = path;
  }
  if (!config && !gguf.empty()) return (pulled.folder / gguf).string();
  return path_exists((pulled.folder / "config.json").string()) ? name.id : "";
}

// Returns the command to type next; empty: there is none.
std::string next_command(const HubName& name, const Pulled& pulled) {
  const bool main = name.revision == "main";
  if (name.kind == HubKind::model) {
    const std::string model = fetched_model(name, pulled);
    if (model.empty()) return "";
    std::vector<std::string> words{"ft", "train", "--config", "run.json",
                                   "model.model_name_or_path=" + model};
    if (!main && model == name.id) words.push_back("model.revision=" + name.revision);
    return shell_line(words);
  }
  const std::string revision = main ? "" : R"(", "revision": ")" + name.revision;
  return shell_line({"ft", "train", "--config", "run.json",
                     R"(data.datasets=[{"path": ")" + name.id + revision + R"("}])"});
}

}  // namespace

std::string begin_line(const std::string& id, std::int64_t files, std::int64_t bytes) {
  return str("fetching ", id, ": ", show::plural(files, "file"), ", ", show::file_size(bytes));
}

std::string end_line(const std::string& id, const Pulled& pulled) {
  return str(pulled.received > 0 ? "pulled   " : "complete ", id, ", ", show::plural(pulled.files, "file"),
             ", ", show::file_size(pulled.bytes),
             pulled.received > 0 ? " in " + show::duration(pulled.seconds) : "", " -> ",
             show::path(pulled.folder));
}

HubName typed_name(const std::string& command, const std::string& id, bool dataset,
                   const std::string& revision) {
  constexpr std::string_view kDatasets = "datasets/";
  const bool prefixed = id.starts_with(kDatasets) && id.find('/', kDatasets.size()) != id.npos;
  const HubName name{dataset || prefixed ? HubKind::dataset : HubKind::model,
                     prefixed ? id.substr(kDatasets.size()) : id, revision};
  if (!is_hub_id(name.id))
    throw UserError(Exit::config, str(command, ": ", printable(id),
                                      " is no id of the hub, such as meta-llama/Llama-3.2-1B"));
  return name;
}

Pulled pull(const Access& access, const HubName& name, const Patterns& patterns, Screen& screen,
            const TransferLimits& limits) {
  require_inside(name.revision, "revision", Exit::config);
  return Pull(access, name, screen, limits).run(patterns);
}

Exit pull_command(const PullArgs& args) {
  const HubName name = typed_name("ft pull", args.id, args.dataset, args.revision);
  Screen screen(Screen::standard_error());
  const Pulled pulled = pull(find_access(), name, args.patterns, screen);
  std::cout << end_line(name.id, pulled) << "\n";
  if (const std::string next = next_command(name, pulled); !next.empty())
    std::cout << "next     " << next << "\n";
  return Exit::done;
}

}  // namespace ft::hub
