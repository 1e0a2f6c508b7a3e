#include "app/push/push.h"

#include <algorithm>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "app/hub/pull.h"
#include "app/push/hub_writer.h"
#include "app/push/model_card.h"
#include "app/push/upload.h"
#include "app/screen/format.h"
#include "engine/core/typography.h"
#include "engine/files/file.h"
#include "engine/files/json.h"

namespace ft::hub {
namespace {

std::int64_t bytes_of(const std::vector<LocalFile>& files) {
  std::int64_t bytes = 0;
  for (const LocalFile& file : files) bytes += file.size;
  return bytes;
}

constexpr std::size_t kMostShown = 50;  // files in a list for people

// Shows the files that are sent and those that are left out.
void show_files(Screen& screen, const Choice& choice) {
  const std::size_t shown = std::min(choice.files.size(), kMostShown);
  std::int64_t width = 0;
  for (std::size_t i = 0; i < shown; ++i)
    width = std::max(width, show::columns(printable(choice.files[i].path)));
  for (std::size_t i = 0; i < shown; ++i) {
    const LocalFile& file = choice.files[i];
    const std::string name = printable(file.path), size = show::file_size(file.size);
    constexpr std::int64_t kSize = 10;  // columns of a size
    const std::int64_t blanks =
        width - show::columns(name) + std::max<std::int64_t>(kSize - std::ssize(size), 1);
    screen.line(str("  ", name, std::string(static_cast<std::size_t>(blanks), ' '), size,
                    file.note.empty() ? "" : "  " + file.note),
                2);
  }
  if (const auto rest = choice.files.size() - shown; rest > 0)
    screen.line(str("  and ", show::plural(static_cast<std::int64_t>(rest), "file"), " more"));
  std::string names;
  for (std::size_t i = 0; i < std::min(choice.left_out.size(), kMostShown); ++i)
    names += str(i == 0 ? "" : ", ", printable(choice.left_out[i].path), " (", choice.left_out[i].why, ")");
  if (choice.left_out.size() > kMostShown)
    names += str(", and ", choice.left_out.size() - kMostShown, " more");
  if (!names.empty()) screen.line("not sent " + names, 9);
}

// A push, from the look at the repository to the commit.
class Push {
 public:
  Push(const Access& access, const Sending& sending, const Choice& choice, Screen& screen,
       const TransferLimits& limits)
      : access_(access),
        sending_(sending),
        choice_(choice),
        screen_(screen),
        limits_(limits),
        transfers_(access, screen, limits),
        http_(transfers_.connection()),
        client_(access, sending.name, *http_),
        writer_(client_, sending.create_pr) {}

  Pushed run() {
    const auto begun = std::chrono::steady_clock::now();
    try {
      prepare();
      choose();
      send_large();
      if (transfers_.stopping()) throw Stopped();
    } catch (const Stopped&) {
      screen_.clear();
      throw UserError(Exit::preempted,
                      str("stopped by ", transfers_.signal_name(),
                          "; nothing is committed, and the same command sends only the rest"));
    }
    Pushed pushed = commit();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begun;
    pushed.seconds = seconds.count();
    return pushed;
  }

 private:
  const HubName& name() const { return sending_.name; }
  std::string page() const { return access_.page(name().kind == HubKind::dataset, name().id); }

  // Shows what will be sent, then makes the repository and the branch if they are missing.
  void prepare() {
    const RepositoryState state = transfers_.patiently([&] { return writer_.look(); });
    screen_.line(str("sending  ", show::plural(std::ssize(choice_.files), "file"), ", ",
                     show::file_size(bytes_of(choice_.files)), " -> ", page(),
                     state.exists          ? ""
                     : sending_.is_private ? " (new, private)"
                                           : " (new)"));
    show_files(screen_, choice_);
    if (state.exists && sending_.is_private && !state.is_private)
      throw UserError(Exit::config,
                      str("ft push: --private, and ", page(),
                          " is public; nothing was sent. Make it private on its settings page, or "
                          "leave --private out"));
    if (!state.exists) transfers_.patiently([&] { writer_.create(sending_.is_private); });
    // A pull request makes a revision of its own.
    if (!state.has_revision && name().revision != "main" && !sending_.create_pr)
      transfers_.patiently([&] { writer_.create_branch(); });
  }

  // Asks the hub how files are to be sent, and leaves out those that it has or ignores.
  void choose() {
    additions_.clear();
    for (const LocalFile& file : choice_.files) additions_.push_back({.file = &file});
    transfers_.patiently([&] { writer_.ask_modes(additions_); });
    for (const Addition& addition : additions_)
      if (addition.ignored)
        screen_.line("not sent " + printable(addition.file->path) + " (the repository's .gitignore)");
    std::erase_if(additions_, [](const Addition& addition) { return addition.ignored; });
    hash_all();
    std::erase_if(additions_, [](const Addition& addition) { return addition.is_there(); });
  }

  // Hashes large files, and small ones of which the hub has a version.
  void hash_all() {
    std::int64_t all = 0, done = 0;
    for (const Addition& addition : additions_) all += addition.large ? addition.file->size : 0;
    Working working(screen_, "hashing", "bytes");
    for (Addition& addition : additions_) {
      const std::string& path = addition.file->path;
      if (addition.large && hashes_.contains(path))
        addition.hash = hashes_[path];
      else if (addition.large)
        addition.hash = hashes_[path] = sha256_of(*addition.file, [&](std::int64_t bytes) {
          working(done += bytes, all);
          if (transfers_.stopping()) throw Stopped();
        });
      else if (!addition.there.empty())
        addition.hash = git_hash_of(*addition.file);
    }
  }

  // Sends the large files that the hub's store does not have; two with the same contents are one.
  void send_large() {
    std::map<std::string, const Addition*> by_hash;
    for (const Addition& addition : additions_)
      if (addition.large) by_hash.emplace(addition.hash, &addition);
    std::vector<const Addition*> large;
    for (const auto& [hash, addition] : by_hash) large.push_back(addition);
    if (large.empty()) return;
    std::vector<std::optional<UploadOrder>> orders;
    transfers_.patiently([&] { orders = writer_.order(large); });
    std::vector<std::size_t> wanted;
    std::int64_t bytes = 0;
    for (std::size_t i = 0; i < large.size(); ++i) {
      bytes += large[i]->file->size;
      if (orders[i])
        wanted.push_back(i);
      else
        transfers_.progress().there += large[i]->file->size;
    }
    if (wanted.empty()) return;
    TransferLine line(name().id, bytes, transfers_.progress().there);
    transfers_.run(wanted.size(), line, [&](HttpClient& http, std::size_t i) {
      Client client(access_, name(), http);
      HubWriter writer(client, sending_.create_pr);
      upload({writer, transfers_.progress(), [this] { return transfers_.stopping(); }, transfers_.pause()},
             *large[wanted[i]], *orders[wanted[i]]);
    });
    screen_.clear();
  }

  // Commits the files. Once the request is under way a signal no longer stops it, so that its end is known.
  Pushed commit() {
    const auto http = make_http_client({.certificates = access_.certificates,
                                        .connect_seconds = limits_.connect_seconds,
                                        .silent_seconds = limits_.silent_seconds});
    Client client(access_, name(), *http);
    HubWriter writer(client, sending_.create_pr);
    Patience patience(limits_.pause, {});
    Pushed pushed{.sent = transfers_.progress().moved, .address = page()};
    for (;;) {
      if (additions_.empty()) return pushed;
      try {
        const Committed done = writer.commit(additions_, sending_.message);
        pushed.files = std::ssize(additions_);
        for (const Addition& addition : additions_) pushed.bytes += addition.file->size;
        pushed.address =
            done.pull_request.empty() ? page() + "/commit/" + done.commit : printable(done.pull_request);
        return pushed;
      } catch (const Trouble& trouble) {
        if (sending_.create_pr)
          throw UserError(Exit::peer_lost,
                          str(trouble.what(), "; the pull request may have been made all the same: ",
                              "look at ", page(), "/discussions before you push again"));
        screen_.line(str(trouble.what(), "; trying again"));
        patience.wait(trouble);
      }
      find_committed(pushed);
    }
  }

  // Looks if a commit whose answer got lost has arrived.
  void find_committed(Pushed& pushed) {
    const std::vector<Addition> before = additions_;
    try {
      choose();
    } catch (const Stopped&) {
      throw UserError(Exit::preempted,
                      str("stopped by ", transfers_.signal_name(),
                          " after a commit without an answer; the same command tells if the hub "
                          "has it"));
    }
    if (!additions_.empty()) return;
    pushed.files = std::ssize(before);
    for (const Addition& addition : before) pushed.bytes += addition.file->size;
  }

  const Access& access_;
  const Sending& sending_;
  const Choice& choice_;
  Screen& screen_;
  const TransferLimits& limits_;
  Transfers transfers_;
  std::unique_ptr<HttpClient> http_;
  Client client_;
  HubWriter writer_;
  std::vector<Addition> additions_;            // files that the hub does not have
  std::map<std::string, std::string> hashes_;  // SHA-256 of large files, by path
};

// Returns the adapter's configuration with the base model's id in place of a path of this machine; empty if
// it names that id.
std::optional<LocalFile> adapter_config_for(const LocalFile& file, const std::string& base_model) {
  constexpr const char* kBase = "base_model_name_or_path";
  Json json = read_json(file.source.string());
  if (!json.is_object() || !json.contains(kBase) || !json[kBase].is_string()) return {};
  const std::string named = json[kBase].get<std::string>();
  if (named == base_model) return {};
  if (base_model.empty())
    throw UserError(Exit::config,
                    str("ft push: ", printable(file.source.string()), " names its base ", printable(named),
                        ", which is no id of the hub; give it: --base-model org/name"));
  json[kBase] = base_model;
  return made_file(file.path, json_text(json) + "\n", "base model: " + base_model);
}

std::string end_line(const HubName& name, const Pushed& pushed) {
  if (pushed.files == 0) return str("complete ", name.id, ": the hub has all files -> ", pushed.address);
  return str("pushed   ", name.id, ", ", show::plural(pushed.files, "file"), ", ",
             show::file_size(pushed.bytes), " in ", show::duration(pushed.seconds), " -> ", pushed.address);
}

}  // namespace

Pushed push(const Access& access, const Sending& sending, const Choice& choice, Screen& screen,
            const TransferLimits& limits) {
  if (access.token.empty())
    throw UserError(Exit::mismatch,
                    str("ft push: no token; log in with hf auth login, or put a token with write "
                        "access into HF_TOKEN (",
                        access.endpoint, "/settings/tokens)"));
  return Push(access, sending, choice, screen, limits).run();
}

Choice choose_with_card(const PushArgs& args, const HubName& name, const std::filesystem::path& cache) {
  Choice choice = choose_files(args.folder, name.kind, args.patterns);
  if (name.kind == HubKind::dataset) return choice;
  const std::string base = args.base_model.empty() ? base_model_of(args.folder) : args.base_model;
  bool card = false;
  for (LocalFile& file : choice.files) {
    card = card || file.path == "README.md";
    if (std::filesystem::path(file.path).filename() == "adapter_config.json")
      if (auto made = adapter_config_for(file, base)) file = std::move(*made);
  }
  if (!card && args.patterns.include.empty() &&
      !path_exists((std::filesystem::path(args.folder) / "README.md").string())) {
    choice.files.push_back(
        made_file("README.md", model_card(args.folder, {.id = name.id, .base_model = base, .cache = cache}),
                  "a card, made now"));
    std::sort(choice.files.begin(), choice.files.end(),
              [](const LocalFile& a, const LocalFile& b) { return a.path < b.path; });
  }
  return choice;
}

Exit push_command(const PushArgs& args) {
  const HubName name = typed_name("ft push", args.id, args.type == "dataset", args.revision);
  if (name.id.find('/') == name.id.npos)
    throw UserError(Exit::config, str("ft push: name the owner too: YOU/", name.id));
  require_inside(name.revision, "revision", Exit::config);
  if (!args.base_model.empty() && id_of_model(args.base_model).empty())
    throw UserError(Exit::config,
                    str("ft push: --base-model ", printable(args.base_model), " is no id of the hub"));
  const Choice choice = choose_with_card(args, name, cache_folder());
  if (args.dry_run) {
    Screen screen(Screen::standard_output());
    screen.line(str("would send ", show::plural(std::ssize(choice.files), "file"), ", ",
                    show::file_size(bytes_of(choice.files)), " to ", name.id));
    show_files(screen, choice);
    return Exit::done;
  }
  Screen screen(Screen::standard_error());
  const Sending sending{name, args.is_private, args.create_pr, args.message};
  std::cout << end_line(name, push(find_access(), sending, choice, screen)) << "\n";
  std::cout << "next     " << hub_pull_command(name) << "\n";
  return Exit::done;
}

}  // namespace ft::hub
