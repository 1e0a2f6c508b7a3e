#include "app/hub/pull_line.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "app/hub/pull.h"
#include "app/screen/format.h"
#include "app/screen/run_text.h"
#include "engine/core/error.h"

namespace ft::hub {
namespace {

constexpr auto kWindow = std::chrono::seconds(5);  // over which the rate is measured
constexpr auto kEvery = std::chrono::seconds(10);  // between lines of a log

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

PullLine::PullLine(std::string id, std::int64_t bytes, std::int64_t there, Clock::time_point now)
    : id_(std::move(id)), bytes_(bytes), there_(there), samples_{{now, 0}}, shown_(now) {}

void PullLine::update(std::int64_t there, std::int64_t received, Clock::time_point now) {
  there_ = there;
  samples_.push_back({now, received});
  while (samples_.size() > 2 && now - samples_[1].time >= kWindow) samples_.pop_front();
}

double PullLine::rate() const {
  const std::chrono::duration<double> span = samples_.back().time - samples_.front().time;
  const auto received = static_cast<double>(samples_.back().received - samples_.front().received);
  return span.count() > 0 ? received / span.count() : 0;
}

std::string PullLine::text(int width, bool utf8) const {
  const auto part = static_cast<double>(there_),
             whole = static_cast<double>(std::max<std::int64_t>(bytes_, 1));
  const double speed = rate();
  const std::string amount = str(show::file_size(there_), " of ", show::file_size(bytes_), "  ",
                                 show::percent(std::floor(100 * part / whole), 100));
  const std::string pace = speed < 1 ? ""
                                     : str("  ", show::file_size(std::llround(speed)), "/s  ",
                                           show::duration((whole - part) / speed), " left");
  const auto room = width - static_cast<int>(show::columns(str(id_, "    ", amount, pace)));
  constexpr int kSmallest = 10, kLargest = 40;
  const std::string bar =
      width > 0 && room >= kSmallest
          ? "  " + drawn_bar(part / whole, std::min(room, kLargest), utf8 ? Bar::utf8 : Bar::ascii)
          : "";
  return id_ + bar + "  " + amount + pace;
}

bool PullLine::due() {
  if (samples_.back().time - shown_ < kEvery) return false;
  shown_ = samples_.back().time;
  return true;
}

}  // namespace ft::hub
