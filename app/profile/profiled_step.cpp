#include "app/profile/profiled_step.h"

#include <filesystem>
#include <sstream>

#include "engine/files/file.h"

namespace ft {

Ops* ProfiledStep::around(Ops& ops) {
  constexpr std::int64_t kTurns = 4096;  // changes of phase in a step, at most
  trace_.emplace(ops, TraceWhat{.calls = true});
  trace_->phases().measure(trace_->stamps(kTurns));
  trace_->stop();
  notes_->stop();
  return &*trace_;
}

void ProfiledStep::begin(const RunHeader& header) {
  profile_.run = header.name();
  profile_.architecture = header.architecture;
  profile_.peak_flops = header.peak_flops / to_.ranks;
  profile_.ranks = to_.ranks;
  profile_.recompute_fwd_factor = config_.recompute_fwd_factor;
  done_ = header.resumed_step >= config_.profile_step;
  if (header.resumed_step + 1 == config_.profile_step)
    start(header.past.steps.empty() ? 0 : header.past.steps.back().num_input_tokens_seen);
}

void ProfiledStep::progress(const StepRow& row) {
  if (row.step == config_.profile_step) finish(row);
  if (row.step + 1 == config_.profile_step) start(row.num_input_tokens_seen);
}

void ProfiledStep::start(std::int64_t tokens) {
  profile_.tokens = tokens;
  notes_->start();
  profile_.phases = trace_->phases().seconds();
  trace_->start();
}

void ProfiledStep::finish(const StepRow& row) {
  trace_->stop();
  done_ = true;
  profile_.step = row.step;
  profile_.tokens = row.num_input_tokens_seen - profile_.tokens;
  const Phases::Seconds now = trace_->phases().seconds();
  for (std::size_t i = 0; i < now.size(); ++i) profile_.phases[i] = now[i] - profile_.phases[i];
  profile_.modules = profile_of(model_, *trace_);
  profile_.gaps = trace_->gaps();

  std::ostringstream timeline;
  trace_->write_timeline(timeline, notes_->stop());
  trace_->clear();
  std::filesystem::create_directories(to_.folder);
  const std::string picture = join_path(to_.folder, "profile.svg");
  write_file(join_path(to_.folder, "trace.json"), timeline.str());
  write_file(picture, as_svg(profile_));
  const std::string text = to_.json ? as_json(profile_) : as_text(profile_, config_);
  if (config_.output_file)
    write_file(*config_.output_file, text + "\n");
  else
    to_.tell(to_.json ? text : text + "\npicture  " + picture);
}

void ProfiledStep::end(const Summary& summary) {
  if (!done_)
    to_.tell(str("logging.flops_profiler.profile_step: the run ended at step ", summary.step,
                 ", before step ", config_.profile_step));
}

double StepProfile::seconds() const {
  double sum = 0;
  for (const Phase p : kStepPhases) sum += seconds(p);
  return sum;
}

}  // namespace ft
