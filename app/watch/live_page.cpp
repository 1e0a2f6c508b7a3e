#include "app/watch/live_page.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <filesystem>

#include "app/plot/svg.h"
#include "app/report/page.h"
#include "app/screen/format.h"
#include "app/watch/live_script.h"
#include "engine/files/file.h"

namespace ft {
namespace fs = std::filesystem;
namespace {

constexpr std::int64_t kLargestReport = std::int64_t{64} << 20;

fs::file_time_type time_of(const std::string& folder, const char* name) {
  std::error_code none;
  const auto time = fs::last_write_time(fs::path(folder) / name, none);
  return none ? fs::file_time_type::min() : time;
}

// Returns sizes and times of a run's files, to see if they have changed.
std::string stamps_of(const std::string& folder) {
  static constexpr std::array kFiles{"run.json", "run_facts.json", "log.jsonl", "samples.json",
                                     "report.html"};
  std::string all;
  for (const char* name : kFiles) {
    std::error_code none;
    const auto size = fs::file_size(fs::path(folder) / name, none);
    all += str(none ? 0 : size, ' ', time_of(folder, name).time_since_epoch().count(), ' ');
  }
  return all;
}

// Returns the local time of a file's last change: 14:03:22. "" if there is no file.
std::string clock_of(const std::string& folder, const char* name) {
  const auto time = time_of(folder, name);
  if (time == fs::file_time_type::min()) return "";
  using std::chrono::system_clock;
  const auto point =
      std::chrono::time_point_cast<system_clock::duration>(fs::file_time_type::clock::to_sys(time));
  const std::time_t seconds = system_clock::to_time_t(point);
  std::tm parts{};
  localtime_r(&seconds, &parts);
  std::array<char, 16> text{};
  std::strftime(text.data(), text.size(), "%H:%M:%S", &parts);
  return text.data();
}

// Returns the seconds that a run needs for its further steps, at its latest speed; 0: unknown.
double seconds_left(const RunPage& run) {
  if (run.rows.steps.empty()) return 0;
  const StepRow& last = run.rows.steps.back();
  if (run.max_steps <= last.step || !(last.tokens_per_second > 0)) return 0;
  const double tokens = static_cast<double>(last.num_input_tokens_seen) / static_cast<double>(last.step);
  return static_cast<double>(run.max_steps - last.step) * tokens / last.tokens_per_second;
}

}  // namespace

LivePage::LivePage(std::vector<std::string> folders) {
  for (std::string& folder : folders)
    runs_.push_back({.folder = std::move(folder), .stamps = "", .page = {}});
  refresh();
}

void LivePage::refresh() {
  for (Watched& w : runs_) {
    std::string stamps = stamps_of(w.folder);
    if (stamps == w.stamps) continue;
    html_.clear();
    w.page = read_run_page(w.folder);
    w.stamps = std::move(stamps);
  }
}

std::string LivePage::progress(const RunPage& run) {
  if (run.ended) return str(run.name, ": ended after ", show::duration(run.seconds));
  if (run.rows.steps.empty()) return run.name + ": no step yet";
  const std::int64_t made = run.rows.steps.back().step;
  std::string text = str(run.name, ": step ", show::count(made));
  if (run.max_steps > 0)
    text += str(" of ", show::count(run.max_steps), ", ",
                show::percent(static_cast<double>(made), static_cast<double>(run.max_steps)));
  if (const double left = seconds_left(run); left > 0) text += str(", ", show::duration(left), " left");
  return text;
}

std::vector<std::string> LivePage::progress() {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> all;
  for (const Watched& w : runs_) all.push_back(progress(w.page));
  return all;
}

std::string LivePage::html() {
  const std::lock_guard lock(mutex_);
  refresh();
  if (!html_.empty()) return html_;
  std::vector<RunPage> pages;
  for (const Watched& w : runs_) pages.push_back(w.page);
  const bool ended = std::ranges::all_of(pages, [](const RunPage& p) { return p.ended; });
  const std::string& first = runs_[0].folder;
  if (ended && runs_.size() == 1 && time_of(first, "report.html") >= time_of(first, "log.jsonl"))
    return html_ = read_file(join_path(first, "report.html"), kLargestReport);
  if (ended) return html_ = report_html(pages);
  std::string live = "<section id=\"live\">";
  for (const Watched& w : runs_) {
    const std::string clock = w.page.ended ? "" : clock_of(w.folder, "log.jsonl");
    live += str("<p>", svg::escaped(progress(w.page)), clock.empty() ? "" : "; last row at " + clock, "</p>");
  }
  return html_ = report_html(pages, live + "</section>\n" + kLiveScript);
}

}  // namespace ft
