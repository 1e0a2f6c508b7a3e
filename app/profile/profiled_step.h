// Profiles one step of a run: logging.flops_profiler, ft profile. The steps before it warm up, and run as
// fast as without.
#pragma once
#include <functional>
#include <string>

#include "app/profile/step_profile.h"
#include "engine/ranks/trace_communicator.h"
#include "engine/train/reports/report.h"

namespace ft {

class ProfiledStep final : public Report {
 public:
  struct To {
    std::string folder;  // of profile.svg and trace.json
    std::function<void(const std::string&)> tell;
    int ranks = 1;
    bool json = false;  // instead of a table
  };
  // All must outlive it. notes: of the collectives, by the run's communicator.
  ProfiledStep(Ops& ops, Model& model, CommunicationNotes& notes, const FlopsProfilerConfig& config, To to);

  Ops& ops() { return trace_; }                            // what the run must use
  void watch(const Arena& saved) { trace_.watch(saved); }  // where the run keeps activations

  void begin(const RunHeader& header) override;
  void progress(const StepRow& row) override;
  void end(const Summary&) override;

 private:
  void start(std::int64_t tokens);
  void finish(const StepRow& row);

  TraceOps trace_;
  Model& model_;
  CommunicationNotes& notes_;
  const FlopsProfilerConfig& config_;
  To to_;
  StepProfile profile_;  // as far as it is known
  bool done_ = false;
};

}  // namespace ft
