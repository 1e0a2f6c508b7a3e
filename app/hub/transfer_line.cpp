#include "app/hub/transfer_line.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "app/screen/format.h"
#include "app/screen/run_text.h"
#include "engine/core/error.h"

namespace ft::hub {
namespace {

constexpr auto kWindow = std::chrono::seconds(5);  // over which the rate is measured
constexpr auto kEvery = std::chrono::seconds(10);  // between lines of a log

}  // namespace

TransferLine::TransferLine(std::string id, std::int64_t bytes, std::int64_t there, Clock::time_point now)
    : id_(std::move(id)), bytes_(bytes), there_(there), samples_{{now, 0}}, shown_(now) {}

void TransferLine::update(std::int64_t there, std::int64_t moved, Clock::time_point now) {
  there_ = there;
  samples_.push_back({now, moved});
  while (samples_.size() > 2 && now - samples_[1].time >= kWindow) samples_.pop_front();
}

double TransferLine::rate() const {
  const std::chrono::duration<double> span = samples_.back().time - samples_.front().time;
  const auto moved = static_cast<double>(samples_.back().moved - samples_.front().moved);
  return span.count() > 0 ? moved / span.count() : 0;
}

std::string TransferLine::text(int width, bool utf8) const {
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

bool TransferLine::due() {
  if (samples_.back().time - shown_ < kEvery) return false;
  shown_ = samples_.back().time;
  return true;
}

}  // namespace ft::hub
