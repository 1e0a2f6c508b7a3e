#include "app/train/observers.h"

#include "app/profile/profiled_step.h"
#include "app/train/communication_log.h"
#include "app/train/memory_breakdown.h"
#include "app/train/traced_steps.h"
#include "engine/train/stage_schedule.h"

namespace ft {

Observers make_observers(const std::string& trace, const Run& run, Screen& screen) {
  const RunConfig& config = run.config;
  const LoggingConfig& logging = config.logging;
  const Ranks& ranks = run.ranks;
  if (!trace.empty() && logging.flops_profiler.enabled)
    throw UserError(
        Exit::config,
        "--trace and logging.flops_profiler.enabled both trace a run's operations; leave one out");
  Observers all;
  if (!trace.empty())
    all.push_back(std::make_unique<TracedSteps>(
        ranks.file(trace), screen,
        bubble({ranks.grid.pipeline, ranks.grid.chunks, config.training.gradient_accumulation_steps})));
  if (!ranks.root()) return all;
  if (logging.flops_profiler.enabled)
    all.push_back(std::make_unique<ProfiledStep>(
        run.built.model(), logging.flops_profiler,
        ProfiledStep::To{.folder = config.training.output_dir,
                         .tell = [&](const std::string& text) { screen.line(text, Screen::kWhole); },
                         .ranks = ranks.size}));
  if (logging.comms_logger.enabled)
    all.push_back(
        std::make_unique<CommunicationLog>(screen, logging.comms_logger, config.training.output_dir));
  if (logging.memory_breakdown) all.push_back(std::make_unique<MemoryBreakdown>(screen));
  return all;
}

}  // namespace ft
