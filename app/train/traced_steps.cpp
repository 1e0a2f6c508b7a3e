#include "app/train/traced_steps.h"

#include <sstream>

#include "engine/io/file.h"

namespace ft {
namespace {

constexpr std::int64_t kTraced = 3;  // steps; as `ft help train` says

}  // namespace

void TracedSteps::progress(const StepRow& row) {
  ++done_;
  if (done_ == 1 && row.step < steps_) {
    trace_.clear();
    notes_.clear();
  }
  if (done_ == 1 + kTraced) write();
}

void TracedSteps::write() {
  if (written_) return;
  written_ = true;
  trace_.stop();
  std::ostringstream timeline, table;
  trace_.write_timeline(timeline, notes_.stop());
  write_file(file_, timeline.str());
  trace_.write_table(table);
  screen_.line(table.str() + "trace    " + file_, Screen::kWhole);
  trace_.clear();
}

}  // namespace ft
