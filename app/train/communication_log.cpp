#include "app/train/communication_log.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "app/screen/format.h"
#include "app/screen/table.h"
#include "engine/files/file.h"
#include "engine/files/json.h"

namespace ft {
namespace {

// Returns the bytes that a ring of ranks would move, as NCCL's tests count them: the bytes that a rank sends;
// for a broadcast or transfer, the size of the message.
std::int64_t bus_bytes(const Communicated& c) {
  const std::string_view what = c.what;
  return what == "broadcast" || what == "transfer" ? c.bytes : c.sent;
}

double gigabits(double bytes, double seconds) { return seconds > 0 ? bytes * 8 / seconds / 1e9 : 0; }

std::string size(std::int64_t bytes) { return bytes < 1024 ? str(bytes, " B") : show::memory(bytes); }
std::string ms(double seconds) { return show::digits(seconds * 1e3); }
std::string bandwidth(double bytes, double seconds) {
  return bytes > 0 ? show::digits(gigabits(bytes, seconds)) : "-";
}

}  // namespace

bool CommunicationSums::counts(std::string_view what) const {
  return config_.prof_all || std::any_of(config_.prof_ops.begin(), config_.prof_ops.end(),
                                         [&](LoggedOp op) { return name_of(op) == what; });
}

void CommunicationSums::communicated(const Communicated& c) {
  if (!counts(c.what)) return;
  const std::lock_guard lock(mutex_);
  Sum& s = sums_[{c.what, config_.debug ? c.where : "", c.bytes}];
  s.least = s.count == 0 ? c.seconds : std::min(s.least, c.seconds);
  ++s.count;
  s.sent += c.sent;
  s.seconds += c.seconds;
  s.bus_bytes += static_cast<double>(bus_bytes(c));
  if (config_.verbose) recent_.push_back(c);
}

std::vector<Communicated> CommunicationSums::take_recent() {
  const std::lock_guard lock(mutex_);
  return std::exchange(recent_, {});
}

std::string CommunicationSums::table() const {
  const std::lock_guard lock(mutex_);
  Table t;
  std::vector<std::string> head{"collective", "message", "count", "sent",
                                "ms in all",  "mean",    "least", "bus Gbit/s"};
  if (config_.debug) head.insert(head.begin() + 1, "of");
  t.row(head);
  for (const auto& [key, s] : sums_) {
    const auto& [what, where, bytes] = key;
    std::vector<std::string> cells{what,
                                   size(bytes),
                                   show::count(s.count),
                                   size(s.sent),
                                   ms(s.seconds),
                                   ms(s.seconds / static_cast<double>(s.count)),
                                   ms(s.least),
                                   bandwidth(s.bus_bytes, s.seconds)};
    if (config_.debug) cells.insert(cells.begin() + 1, where);
    t.row(cells);
  }
  return t.text();
}

std::string CommunicationSums::json(const std::string& ranks) const {
  const std::lock_guard lock(mutex_);
  Json rows = Json::array();
  for (const auto& [key, s] : sums_) {
    const auto& [what, where, bytes] = key;
    Json row = {{"collective", what},
                {"message_bytes", bytes},
                {"count", s.count},
                {"sent_bytes", s.sent},
                {"seconds", s.seconds},
                {"least_seconds", s.least},
                {"bus_gbit_per_second", gigabits(s.bus_bytes, s.seconds)}};
    if (config_.debug) row["of"] = where;
    rows.push_back(std::move(row));
  }
  return Json{{"ranks", ranks}, {"collectives", rows}}.dump(1) + "\n";
}

void CommunicationLog::print_recent() {
  for (const Communicated& c : sums_->take_recent())
    screen_.line(str(c.what, "  ", size(c.bytes), "  ", ms(c.seconds), " ms  ",
                     bandwidth(static_cast<double>(bus_bytes(c)), c.seconds), " Gbit/s",
                     c.where.empty() ? "" : "  ", c.where));
}

void CommunicationLog::end(const Summary&) {
  print_recent();
  if (ranks_.empty()) return screen_.line("logging.comms_logger: one rank communicates with no other");
  write_file(join_path(folder_, "communication.json"), sums_->json(ranks_));
  screen_.line(str("\ncommunication of rank 0 of ", ranks_));
  std::istringstream table(sums_->table());
  for (std::string row; std::getline(table, row);) screen_.line(row, Screen::kWhole);
}

}  // namespace ft
