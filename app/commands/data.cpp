// ft data show, ft data stats.
#include <array>

#include "app/commands/list.h"
#include "app/commands/run_options.h"
#include "app/samples/data_show.h"
#include "app/samples/data_stats.h"

namespace ft::commands {
namespace {

Use data_show_options(CLI::App& app) {
  const auto args = std::make_shared<DataShowArgs>();
  add_run_options(app, *args);
  app.add_flag("--json", args->json, "One JSON object a line: input_ids, labels, source.");
  app.add_option("--limit", args->limit, "Show at most N samples.")->check(CLI::NonNegativeNumber);
  return {.run = [args] { return data_show(*args); }};
}

Use data_stats_options(CLI::App& app) {
  const auto args = std::make_shared<DataStatsArgs>();
  add_run_options(app, *args);
  app.add_flag("--json", args->json, "One JSON object.");
  return {.run = [args] { return data_stats(*args); }};
}

const Command kDataShow{"show", "Show the samples of a run as the model gets them.",
                        "  ft data show --config run.json --limit 3\n"
                        "  ft data show --config run.json --json | head",
                        data_show_options};
const Command kDataStats{"stats", "Show the lengths of the samples, and the cost of each length limit.",
                         "  ft data stats --config run.json", data_stats_options};
constexpr std::array kDataCommands{&kDataShow, &kDataStats};

}  // namespace

const Command kData{.name = "data", .help = "Inspect training data.", .examples = "", .below = kDataCommands};

}  // namespace ft::commands
