#include "app/train/memory_breakdown.h"

#include <algorithm>
#include <sstream>

#include "app/screen/format.h"
#include "app/screen/table.h"
#include "engine/core/error.h"

namespace ft {

void MemoryBreakdown::Used::most(const Used& other) {
  activations = std::max(activations, other.activations);
  scratch = std::max(scratch, other.scratch);
}

void MemoryBreakdown::started(const ChangingMemory& memory) {
  memory_.emplace(memory);
  cuda_.reserved = memory.ops.driver_memory();
}

void MemoryBreakdown::begin(const RunHeader& header) {
  cuda_.planned = header.memory.cuda;
  memory_->phases.watch([this](Phase phase) {
    const Used used{memory_->saved.recent_peak(), memory_->scratch.recent_peak()};
    recent_[static_cast<std::size_t>(phase)].most(used);
    all_[static_cast<std::size_t>(phase)].most(used);
  });
}

Measures MemoryBreakdown::columns() {
  Measures columns;
  for (const Phase phase : kShown) {
    const Used& used = recent_[static_cast<std::size_t>(phase)];
    columns.emplace_back(str("memory/", name_of(phase), "_activations"),
                         static_cast<double>(used.activations));
    columns.emplace_back(str("memory/", name_of(phase), "_scratch"), static_cast<double>(used.scratch));
  }
  recent_ = {};
  if (memory_->ops.device().kind == Device::Kind::cuda) {
    const std::int64_t now = memory_->ops.driver_memory();
    cuda_.first_row = cuda_.first_row.value_or(now);
    columns.emplace_back("memory/cuda", static_cast<double>(now));
  }
  return columns;
}

void MemoryBreakdown::end(const Summary& summary) {
  const MemoryReport& m = summary.memory;
  const std::int64_t kept =
      m.weights + m.adapter + m.gradients + m.optimizer + m.communication + m.cuda + m.snapshot;
  std::int64_t most_scratch = 0;
  for (const Used& u : all_) most_scratch = std::max(most_scratch, u.scratch);
  const std::int64_t workspace = m.scratch - most_scratch;  // workspace of the operations
  const show::MemoryUnit unit = show::memory_unit(m.total);
  std::vector<std::string> head{unit.name};
  for (const Phase phase : kShown) head.emplace_back(name_of(phase));
  Table t;
  t.row(head);
  const auto row = [&](const char* name, auto bytes_of) {
    std::vector<std::string> cells{name};
    for (const Phase phase : kShown)
      cells.push_back(show::memory(bytes_of(all_[static_cast<std::size_t>(phase)]), unit));
    t.row(cells);
  };
  for (const auto& [name, bytes] : {std::pair{"weights", m.weights},
                                    {"adapter", m.adapter},
                                    {"gradients", m.gradients},
                                    {"optimizer", m.optimizer},
                                    {"communication", m.communication},
                                    {"CUDA", m.cuda},
                                    {"snapshot", m.snapshot}})
    if (bytes > 0) row(name, [&bytes = bytes](const Used&) { return bytes; });
  row("activations", [](const Used& u) { return u.activations; });
  row("scratch", [&](const Used& u) { return workspace + u.scratch; });
  row("in all", [&](const Used& u) { return kept + workspace + u.activations + u.scratch; });
  screen_.line("\nmost memory at the phases of a step");
  std::istringstream table(t.text());
  for (std::string text; std::getline(table, text);) screen_.line(text, Screen::kWhole);
  if (m.cuda > 0) print_cuda(m.cuda);
}

void MemoryBreakdown::print_cuda(std::int64_t now) const {
  const auto mib = [](std::int64_t bytes) { return str(bytes >> 20, " MiB"); };
  screen_.line(
      str("CUDA: ", mib(cuda_.planned), " planned, ", mib(cuda_.reserved), " when the memory was reserved, ",
          cuda_.first_row ? mib(*cuda_.first_row) + " at the first row, " : std::string(), mib(now),
          " at the end"),
      Screen::kWhole);
}

}  // namespace ft
