#include "app/train/traced_steps.h"

#include <sstream>

#include "app/screen/format.h"
#include "engine/files/file.h"

namespace ft {
namespace {

constexpr std::int64_t kTraced = 3;  // traced steps; also in the text of `ft help train`

// Returns a line about the share of the traced time that a stage spent on waiting for its neighbours and
// sending to them.
std::string waited(std::span<const TraceCall> computed, std::span<const TraceCall> sent, double bubble) {
  if (bubble == 0 || computed.empty()) return "";
  double seconds = 0;
  for (const TraceCall& call : sent)
    if (std::string_view(call.op) == "send_receive") seconds += call.seconds;
  const TraceCall& last = computed.back();
  return str("pipeline ", show::percent(seconds, last.start + last.seconds - computed.front().start),
             " of the time waits for neighbouring stages; ", show::percent(bubble, 1),
             " would if all took as long\n");
}

}  // namespace

void TracedSteps::progress(const StepRow& row) {
  ++done_;
  if (done_ == 1 && row.step < steps_) {
    trace_->clear();
    notes_->clear();
  }
  if (done_ == 1 + kTraced) write();
}

void TracedSteps::write() {
  if (written_) return;
  written_ = true;
  trace_->stop();
  std::ostringstream timeline, table;
  const std::vector<TraceCall> sent = notes_->stop();
  trace_->write_timeline(timeline, sent);
  write_file(file_, timeline.str());
  trace_->write_table(table);
  screen_.line(table.str() + waited(trace_->calls(), sent, bubble_) + "trace    " + file_, Screen::kWhole);
  trace_->clear();
}

}  // namespace ft
