// Several files at once over the network: connections, threads, waits between attempts, signals, progress.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "app/hub/access.h"
#include "app/hub/http_client.h"
#include "app/hub/patience.h"
#include "app/hub/transfer_line.h"
#include "app/process/signals.h"
#include "app/screen/screen.h"
#include "engine/core/error.h"

namespace ft::hub {

struct TransferLimits {
  int connections = 8;                    // files at once
  std::chrono::milliseconds pause{1000};  // wait after a first failure, see Patience
  int connect_seconds = 30, silent_seconds = 60;
};

// Progress of all files, for several threads.
class Progress {
 public:
  std::atomic<std::int64_t> there = 0;  // bytes at their end, of all files
  std::atomic<std::int64_t> moved = 0;  // bytes that went over the network

  void note(const std::string& text);
  std::vector<std::string> take_notes();  // notes since the last call

 private:
  std::mutex mutex_;
  std::vector<std::string> notes_;
};

class Transfers {
 public:
  // `access`, `screen` and `limits` must outlive the transfers.
  Transfers(const Access& access, Screen& screen, const TransferLimits& limits)
      : access_(access), screen_(screen), limits_(limits) {}

  Progress& progress() { return progress_; }
  std::chrono::milliseconds pause() const { return limits_.pause; }
  // True after a signal, or when a transfer has failed.
  bool stopping() const { return signals_.asked() || failed_; }
  std::string signal_name() const { return signals_.name(); }

  std::unique_ptr<HttpClient> connection();

  // Calls a function until it throws no Trouble. Throws like Patience::wait().
  auto patiently(const auto& attempt) {
    constexpr int kMost = 4;
    std::string noted;
    Patience patience(
        limits_.pause, [this] { return stopping(); }, kMost);
    for (;;) {
      try {
        return attempt();
      } catch (const Trouble& trouble) {
        if (noted != trouble.what()) screen_.line(str(trouble.what(), "; trying again"));
        noted = trouble.what();
        patience.wait(trouble);
      }
    }
  }

  // Moves one file on a connection.
  using Move = std::function<void(HttpClient&, std::size_t index)>;
  // Moves `count` files in several threads and shows the line in this one. Throws the first error; Stopped
  // after a signal.
  void run(std::size_t count, TransferLine& line, const Move& move);

 private:
  std::vector<std::jthread> start(std::size_t count, const Move& move);
  void work(std::size_t count, const Move& move);
  void watch(TransferLine& line);
  void show_notes();

  const Access& access_;
  Screen& screen_;
  const TransferLimits& limits_;
  StopSignals signals_{true};
  Progress progress_;
  std::atomic<std::size_t> next_ = 0;  // index of the next file
  std::mutex mutex_;
  std::condition_variable ended_;
  int running_ = 0;           // threads
  std::exception_ptr error_;  // of the first thread that failed
  std::atomic<bool> failed_ = false;
};

}  // namespace ft::hub
