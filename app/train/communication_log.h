// logging.comms_logger: the messages between ranks, as rank 0 sees them, by collective and message size.
// Prints a table at the end, and writes communication.json into the run's folder.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "app/run/observer.h"
#include "app/screen/screen.h"
#include "engine/ranks/trace_communicator.h"
#include "engine/train/reports/config.h"

namespace ft {

// Sums of the collectives that the communicator reports. `config` must outlive this object.
class CommunicationSums final : public CommunicationObserver {
 public:
  explicit CommunicationSums(const CommsLoggerConfig& config) : config_(config) {}

  void communicated(const Communicated& c) override;
  std::vector<Communicated> take_recent();  // since the last call, if logging.comms_logger prints each
  std::string table() const;
  std::string json(const std::string& ranks) const;

 private:
  struct Sum {
    std::int64_t count = 0, sent = 0;
    double seconds = 0, least = 0, bus_bytes = 0;
  };
  using Key = std::tuple<std::string, std::string, std::int64_t>;  // collective, purpose, bytes

  bool counts(std::string_view what) const;

  const CommsLoggerConfig& config_;
  mutable std::mutex mutex_;  // guards the members below
  std::map<Key, Sum> sums_;
  std::vector<Communicated> recent_;
};

class CommunicationLog final : public Observer {
 public:
  // The screen and the settings must outlive it.
  CommunicationLog(Screen& screen, const CommsLoggerConfig& config, std::string folder)
      : screen_(screen), sums_(std::make_shared<CommunicationSums>(config)), folder_(std::move(folder)) {}

  std::shared_ptr<CommunicationObserver> counts() override { return sums_; }

  void begin(const RunHeader& header) override { ranks_ = header.ranks; }
  void progress(const StepRow&) override { print_recent(); }
  void end(const Summary&) override;

 private:
  void print_recent();

  Screen& screen_;
  std::shared_ptr<CommunicationSums> sums_;
  std::string folder_, ranks_;
};

}  // namespace ft
