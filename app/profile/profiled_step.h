// Profiles one step of a run: logging.flops_profiler, ft profile. The steps before it warm up, at full speed.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "app/profile/step_profile.h"
#include "app/run/observer.h"
#include "engine/ranks/trace_communicator.h"

namespace ft {

class ProfiledStep final : public Observer {
 public:
  struct To {
    std::string folder;  // gets profile.svg and trace.json
    std::function<void(const std::string&)> tell;
    int ranks = 1;
    bool json = false;  // true: JSON instead of a table
  };
  // The model and the configuration must outlive this object.
  ProfiledStep(Model& model, const FlopsProfilerConfig& config, To to)
      : model_(model), config_(config), to_(std::move(to)) {}

  Ops* around(Ops& ops) override;
  std::shared_ptr<CommunicationObserver> notes() override { return notes_; }
  void started(const ChangingMemory& memory) override { trace_->watch(memory.saved); }

  void begin(const RunHeader& header) override;
  void progress(const StepRow& row) override;
  void end(const Summary&) override;

 private:
  void start(std::int64_t tokens);
  void finish(const StepRow& row);

  std::optional<TraceOps> trace_;
  Model& model_;
  std::shared_ptr<CommunicationNotes> notes_ = std::make_shared<CommunicationNotes>();
  const FlopsProfilerConfig& config_;
  To to_;
  StepProfile profile_;  // complete after finish()
  bool done_ = false;
};

}  // namespace ft
