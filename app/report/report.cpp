#include "app/report/report.h"

#include "app/report/html_report.h"
#include "app/report/page.h"
#include "app/screen/format.h"
#include "app/screen/screen.h"
#include "engine/files/file.h"

namespace ft {

void HtmlReport::begin(const RunHeader& header) {
  settings_ = header.settings;
  for (const StepRow& row : header.past.steps) curves_.add(row);
}

void HtmlReport::end(const Summary&) {
  RunPage page = run_page(folder_, settings_);
  page.curves = curves_;
  write_file(join_path(folder_, "report.html"), report_html({std::move(page)}));
}

Exit report(const ReportArgs& args) {
  if (path_exists(args.output) && !args.overwrite)
    throw UserError(Exit::config, printable(args.output) +
                                      " already exists; give another file with --output, or --overwrite");
  std::vector<RunPage> pages;
  for (const std::string& run : args.runs) {
    pages.push_back(read_run_page(run));
    if (!path_exists(join_path(run, "log.jsonl")))
      throw UserError(Exit::input, printable(run) + ": the run has no log yet: there is no log.jsonl");
  }
  const std::string html = report_html(pages);
  write_file(args.output, html);
  Screen(Screen::standard_error())
      .line(str("report   ", show::path(args.output), " (",
                show::plural(static_cast<std::int64_t>(pages.size()), "run"), ", ",
                show::file_size(static_cast<std::int64_t>(html.size())), ")"));
  return Exit::done;
}

}  // namespace ft
