#include "app/hub/patience.h"

#include <algorithm>
#include <cmath>
#include <thread>
#include <utility>

#include "app/hub/http_client.h"
#include "app/screen/format.h"
#include "engine/core/error.h"

namespace ft::hub {
namespace {

constexpr double kLongestWait = 600;  // seconds

}  // namespace

Patience::Patience(std::chrono::milliseconds first, std::function<bool()> stop, int most)
    : first_(first), stop_(std::move(stop)), most_(most) {}

void Patience::wait(const Trouble& trouble) {
  using Clock = std::chrono::steady_clock;
  constexpr const char* kGoOn = "\n  the same command goes on from here";
  if (trouble.wait && *trouble.wait > kLongestWait)
    throw UserError(Exit::peer_lost,
                    str(trouble.what(), "; it asks to wait ", show::duration(*trouble.wait), kGoOn));
  if (++failures_ >= most_)
    throw UserError(Exit::peer_lost, str(trouble.what(), ", ", failures_, " times in a row", kGoOn));
  const double usual = static_cast<double>(first_.count()) / 1000 * std::exp2(failures_ - 1);
  const std::chrono::duration<double> span(std::max(usual, trouble.wait.value_or(0)));
  for (const auto end = Clock::now() + span; Clock::now() < end;) {
    if (stop_ && stop_()) throw Stopped();
    std::this_thread::sleep_for(
        std::min<std::chrono::duration<double>>(end - Clock::now(), std::chrono::milliseconds(50)));
  }
}

}  // namespace ft::hub
