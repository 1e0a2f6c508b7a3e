// ft watch.
#include "app/watch/watch.h"

#include "app/commands/list.h"
#include "app/commands/server_options.h"

namespace ft::commands {
namespace {

Use watch_options(CLI::App& app) {
  const auto args = std::make_shared<WatchArgs>();
  app.add_option("runs", args->runs, "Folders of runs.")->required()->type_name("RUN");
  add_server_options(app, {args->host, args->port, args->allowed_origins, args->key_file, args->https});
  return {.run = [args] { return watch(*args); }};
}

}  // namespace

const Command kWatch{"watch", "Serve a page that follows runs while they train: docs/trackers.md.",
                     "  ft watch outputs/a\n"
                     "  ft watch outputs/a outputs/b --port 9000",
                     watch_options};

}  // namespace ft::commands
