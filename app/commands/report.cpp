// ft report.
#include "app/report/report.h"

#include "app/commands/list.h"

namespace ft::commands {
namespace {

Use report_options(CLI::App& app) {
  const auto args = std::make_shared<ReportArgs>();
  app.add_option("runs", args->runs, "Folders of runs.")->required()->type_name("RUN");
  app.add_option("--output", args->output, "The page to write.")->type_name("FILE")->capture_default_str();
  app.add_flag("--overwrite", args->overwrite, "Replace the page if it exists.");
  return {.run = [args] { return report(*args); }};
}

}  // namespace

const Command kReport{"report",
                      "Write one page about a run, or about several side by side, that opens offline.",
                      "  ft report outputs/a\n"
                      "  ft report outputs/a outputs/b --output compared.html",
                      report_options};

}  // namespace ft::commands
