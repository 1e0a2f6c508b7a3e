// Calls a function at once and then every second in a separate thread, until the Ticker is destroyed.
#pragma once
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>

namespace ft {

class Ticker {
 public:
  explicit Ticker(std::function<void()> tick)
      : thread_([tick = std::move(tick)](const std::stop_token& stop) {
          std::mutex mutex;
          std::condition_variable_any wake;
          std::unique_lock lock(mutex);
          while (!stop.stop_requested()) {
            tick();
            wake.wait_for(lock, stop, std::chrono::seconds(1), [] { return false; });
          }
        }) {}

 private:
  std::jthread thread_;  // joined at the end
};

}  // namespace ft
