#include "app/hub/pull.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <iostream>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "app/hub/download.h"
#include "app/hub/pull_line.h"
#include "app/process/signals.h"
#include "app/screen/format.h"
#include "engine/core/typography.h"
#include "engine/files/file.h"
#include "engine/files/room.h"

namespace ft::hub {
namespace {

// A pull, from the list of files to the snapshot.
class Pull {
 public:
  Pull(const Access& access, const HubName& name, Screen& screen, const PullLimits& limits)
      : access_(access), name_(name), screen_(screen), limits_(limits), repository_(access.cache, name) {}

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
            .received = progress_.received,
            .seconds = seconds.count(),
            .paths = std::move(paths)};
  }

 private:
  bool stopping() const { return signals_.asked() || failed_; }

  std::unique_ptr<HttpClient> connection() {
    return make_http_client({.certificates = access_.certificates,
                             .stop = [this] { return stopping(); },
                             .connect_seconds = limits_.connect_seconds,
                             .silent_seconds = limits_.silent_seconds});
  }

  // Calls a function until it succeeds.
  auto patiently(const auto& attempt) {
    constexpr int kMost = 4;
    std::string noted;
    Patience patience(
        limits_.pause, [this] { return stopping(); }, kMost);
    for (;;) {
      try {
        return attempt();
      } catch (const Trouble& trouble) {
        if (noted != trouble.what()) screen_.line(str(trouble.what(), "; trying again"));
        noted = trouble.what();
        patience.wait(trouble);
      }
    }
  }

  // Lists the files and chooses among them; small ones come first.
  void find_files(const Patterns& patterns) {
    const auto http = connection();
    Client client(access_, name_, *http);
    listing_ = patiently([&] { return client.listing(); });
    listing_.files = select_files(listing_.files, name_, patterns);
    for (RemoteFile& file : listing_.files)
      if (file.size < 0 || file.hash.empty())
        file = patiently([&] { return client.describe(listing_.commit, file.path); });
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
    {
      const std::vector<std::jthread> threads = start();
      watch();
    }
    show_notes();
    if (error_) std::rethrow_exception(error_);
    if (signals_.asked()) throw Stopped();
  }

  // Starts as many threads as there are connections and wanted files, or as the system allows.
  std::vector<std::jthread> start() {
    const auto count = std::min(static_cast<std::size_t>(limits_.connections), wanted_.size());
    std::vector<std::jthread> threads;
    const std::lock_guard lock(mutex_);
    try {
      while (threads.size() < count) {
        threads.emplace_back([this] { work(); });
        ++running_;
      }
    } catch (const std::system_error& e) {
      if (threads.empty()) throw UserError(Exit::hardware, str("cannot start a thread: ", e.what()));
    }
    return threads;
  }

  // Fetches one file after another, in a thread.
  void work() {
    try {
      const auto http = connection();
      Client client(access_, name_, *http);
      const Fetching fetching{
          client, repository_, listing_.commit, progress_, [this] { return stopping(); }, limits_.pause};
      for (std::size_t i = next_++; i < wanted_.size() && !stopping(); i = next_++)
        fetch(fetching, *wanted_[i]);
    } catch (const Stopped&) {
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
      failed_ = true;
    }
    const std::lock_guard lock(mutex_);
    --running_;
    ended_.notify_all();
  }

  void show_notes() {
    for (const std::string& note : progress_.take_notes()) screen_.line(note);
  }

  // Draws the progress until all threads have ended.
  void watch() {
    PullLine line(name_.id, bytes_, progress_.there);
    std::unique_lock lock(mutex_);
    while (running_ > 0) {
      ended_.wait_for(lock, std::chrono::milliseconds(100));
      show_notes();
      line.update(progress_.there, progress_.received);
      if (screen_.live())
        screen_.live_line([&](int width) { return line.text(width, screen_.utf8()); });
      else if (line.due())
        screen_.line(line.text(0, false));
    }
  }

  std::string stopped_text() const {
    screen_.clear();
    return str("stopped by ", signals_.name(), " with ", show::file_size(progress_.there), " of ",
               show::file_size(bytes_), "; the same command goes on from here");
  }

  const Access& access_;
  const HubName& name_;
  Screen& screen_;
  const PullLimits& limits_;
  Repository repository_;
  StopSignals signals_{true};
  Listing listing_;
  std::int64_t bytes_ = 0;                 // of all files
  std::vector<const RemoteFile*> wanted_;  // files that are not there
  std::atomic<std::size_t> next_ = 0;      // index of the next wanted file
  Progress progress_;
  std::mutex mutex_;
  std::condition_variable ended_;
  int running_ = 0;           // threads
  std::exception_ptr error_;  // of the first thread that failed
  std::atomic<bool> failed_ = false;
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

Pulled pull(const Access& access, const HubName& name, const Patterns& patterns, Screen& screen,
            const PullLimits& limits) {
  require_inside(name.revision, "revision", Exit::config);
  return Pull(access, name, screen, limits).run(patterns);
}

Exit pull_command(const PullArgs& args) {
  constexpr std::string_view kDatasets = "datasets/";
  const bool prefixed = args.id.starts_with(kDatasets) && args.id.find('/', kDatasets.size()) != args.id.npos;
  const HubName name{args.dataset || prefixed ? HubKind::dataset : HubKind::model,
                     prefixed ? args.id.substr(kDatasets.size()) : args.id, args.revision};
  if (!is_hub_id(name.id))
    throw UserError(Exit::config, str("ft pull: ", printable(args.id),
                                      " is no id of the hub, such as meta-llama/Llama-3.2-1B"));
  Screen screen(Screen::standard_error());
  const Pulled pulled = pull(find_access(), name, args.patterns, screen);
  std::cout << end_line(name.id, pulled) << "\n";
  if (const std::string next = next_command(name, pulled); !next.empty())
    std::cout << "next     " << next << "\n";
  return Exit::done;
}

}  // namespace ft::hub
