#include "app/plan/table.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "app/screen/format.h"
#include "engine/files/json.h"
#include "engine/train/stage_schedule.h"

namespace ft {
namespace {

struct Category {
  const char *name, *shown;
  std::int64_t MemoryReport::*bytes;
};
constexpr Category kCategories[] = {
    {"weights", "weights", &MemoryReport::weights},
    {"adapter", "adapter", &MemoryReport::adapter},
    {"gradients", "gradients", &MemoryReport::gradients},
    {"optimizer", "optimizer", &MemoryReport::optimizer},
    {"activations", "activations", &MemoryReport::activations},
    {"scratch", "workspace", &MemoryReport::scratch},
    {"communication", "communication", &MemoryReport::communication},
    {"cuda", "CUDA", &MemoryReport::cuda},
    {"snapshot", "snapshot", &MemoryReport::snapshot},
    {"total", "total", &MemoryReport::total},
    {"host", "on the host", &MemoryReport::host},
    {"elsewhere", "in files", &MemoryReport::elsewhere},
};

// Host memory is that of the pipeline's stage that takes most of it; the rest is of the stage with most
// device memory.
std::int64_t bytes_of(const Planned& p, const Category& c) {
  return c.bytes == &MemoryReport::host ? p.host() : p.plan.memory.*c.bytes;
}

Json memory_of(const Planned& planned) {
  Json j;
  for (const Category& c : kCategories) j[c.name] = bytes_of(planned, c);
  return j;
}

// Returns a row: its name, then a value for each stage.
template <class Value>
std::string row(const std::string& name, const PlanTable& t, const Value& value) {
  std::string line = name + std::string(name.size() < 14 ? 14 - name.size() : 1, ' ');
  for (const PlannedStage& s : t.stages) {
    const std::string text = value(s);
    line += std::string(text.size() < 11 ? 11 - text.size() : 1, ' ') + text;
  }
  return line;
}

PipelineShape shape_of(const PlanTable& t) { return {t.grid.pipeline, t.grid.chunks, t.accumulation}; }

std::string pipeline_text(const PlanTable& t, const show::MemoryUnit& unit) {
  const bool chunks = t.grid.chunks > 1;
  std::string text;
  for (const Plan& stage : t.mine().planned.stages)
    text += str(text.empty() ? "pipeline: " : "; ", show::plural(stage.blocks, "block"), " in ",
                show::memory(stage.memory.total, unit), " ", unit.name);
  return text + str("\nwaited: ", show::percent(bubble(shape_of(t)), 1), " of a step, (P - 1) / (",
                    chunks ? "V m" : "m", " + P - 1) with P = ", t.grid.pipeline, " stages",
                    chunks ? str(", V = ", t.grid.chunks, " chunks on each") : "",
                    " and m = ", t.accumulation, " micro-batches\n");
}

// Returns the line about the longest sample, or source, that fits; with a column for each stage if there are
// several.
std::string longest_text(const PlanTable& t) {
  const char* const what = t.mine().planned.largest.source_tokens > 0 ? "source" : "sample";
  const auto tokens = [](const PlannedStage& s) {
    return s.longest > 0 ? show::count(s.longest) : std::string("-");
  };
  const std::string made_for =
      t.positions > 0 ? str(" (the model was made for ", show::count(t.positions), ")") : "";
  if (t.stages.size() > 1)
    return row("longest", t, tokens) + str("     tokens of a ", what, " that fits", made_for, "\n");
  if (t.mine().longest == 0) return str("longest ", what, " that fits: none\n");
  return str("longest ", what, " that fits: ", show::plural(t.mine().longest, "token"), made_for, "\n");
}

// Returns how many blocks are recomputed, and how many of them together if their inputs are not all kept.
std::string recomputed_text(const PlanTable& t) {
  std::string text =
      row("recomputed", t, [](const PlannedStage& s) { return show::count(s.planned.plan.recomputed); }) +
      str("     of ", show::plural(t.mine().planned.plan.blocks, "block"), "\n");
  if (std::ranges::any_of(t.stages, [](const PlannedStage& s) { return s.planned.plan.segment > 1; }))
    text += row("at a time", t, [](const PlannedStage& s) { return show::count(s.planned.plan.segment); }) +
            "     blocks: only the input of the first is kept\n";
  return text;
}

// Returns the ranks that compute one micro-batch, as text.
std::string ranks_text(const PlanTable& t) {
  if (t.ranks == 1) return "";
  const int each = t.ranks / t.grid.data;
  if (each == 1) return str(" on each of ", t.ranks, " ranks");
  return t.grid.data == 1 ? str(" on ", t.ranks, " ranks together")
                          : str(" on each of ", t.grid.data, " groups of ", each, " ranks");
}

}  // namespace

std::string as_json(const PlanTable& t) {
  const Plan& plan = t.mine().planned.plan;
  Json j = memory_of(t.mine().planned);
  j["flops_per_step"] = plan.flops * static_cast<double>(t.accumulation);
  j["recomputed_blocks"] = plan.recomputed;
  j["recomputed_at_a_time"] = plan.segment;
  j["whole_blocks"] = plan.whole;
  j["ranks"] = t.ranks;
  for (const Axis a : kAxes) j[str(name_of(a), "_parallel_size")] = t.grid[a];
  j["zero_stage"] = t.mine().stage;
  j["sent_per_step"] = plan.sent_per_step(t.accumulation);
  if (t.cost) add_to(j, *t.cost);
  if (t.grid.pipeline > 1) {
    j["bubble"] = bubble(shape_of(t));
    j["virtual_pipeline_parallel_size"] = t.grid.chunks;
    for (const Plan& stage : t.mine().planned.stages) {
      Json of = memory_of({stage, {}, {}});
      of["blocks"] = stage.blocks;
      of["in_flight"] = stage.in_flight;
      of["sent_per_step"] = stage.sent_per_step(t.accumulation);
      j["pipeline"].push_back(of);
    }
  }
  j["flops_per_token"] = plan.flops_per_token;
  j["parameters"] = plan.parameters;
  j["trained_parameters"] = plan.trained;
  j["memory_there"] = t.there > 0 ? Json(t.there) : Json();
  if (t.host > 0) j["host_there"] = t.host;
  if (t.there > 0) j["longest"] = t.mine().longest;
  if (t.stages.size() > 1)
    for (const PlannedStage& s : t.stages) {
      Json of = memory_of(s.planned);
      of["zero_stage"] = s.stage;
      of["sent_per_step"] = s.planned.plan.sent_per_step(t.accumulation);
      if (t.there > 0) of["longest"] = s.longest;
      j["stages"].push_back(of);
    }
  return json_text(j, -1);
}

std::string as_text(const PlanTable& t) {
  std::int64_t most = 0;
  for (const PlannedStage& s : t.stages) most = std::max(most, s.planned.plan.memory.total);
  const auto unit = show::memory_unit(most);
  std::string text;
  if (t.stages.size() > 1)
    text = row(str(unit.name, " per rank"), t, [](const PlannedStage& s) { return str("stage ", s.stage); });
  else
    text = row("memory", t, [&](const PlannedStage&) { return std::string(unit.name); });
  text += "\n";
  for (const Category& c : kCategories) {
    const auto some = [&](const PlannedStage& s) { return bytes_of(s.planned, c) > 0; };
    const bool rare = c.bytes == &MemoryReport::cuda || c.bytes == &MemoryReport::host ||
                      c.bytes == &MemoryReport::elsewhere || c.bytes == &MemoryReport::snapshot;
    if (rare && std::ranges::none_of(t.stages, some)) continue;
    text += row(c.shown, t, [&](const PlannedStage& s) {
      const std::int64_t bytes = bytes_of(s.planned, c);
      return bytes > 0 ? show::memory(bytes, unit) : std::string("-");
    });
    if (c.bytes == &MemoryReport::total && t.there > 0) text += "     of " + show::memory(t.there);
    if (c.bytes == &MemoryReport::host && t.host > 0) text += "     of " + show::memory(t.host);
    text += "\n";
  }
  if (t.choose_recomputed) text += recomputed_text(t);
  if (std::ranges::any_of(t.stages, [](const PlannedStage& s) { return s.planned.plan.whole > 0; }))
    text +=
        row("fully kept", t, [](const PlannedStage& s) { return show::count(s.planned.plan.whole); }) +
        str("     of ", show::plural(t.mine().planned.plan.blocks, "block"), ": norms and activations too\n");
  if (t.ranks > 1)
    text += row("sent", t,
                [&](const PlannedStage& s) {
                  return show::memory(s.planned.plan.sent_per_step(t.accumulation), unit);
                }) +
            "     per step, by each rank\n";
  if (t.there > 0) text += longest_text(t);
  const Plan& plan = t.mine().planned.plan;
  text +=
      str("trained: ", show::quantity(static_cast<double>(plan.trained)), " of ",
          show::quantity(static_cast<double>(plan.parameters)),
          " parameters\none step: ", show::quantity(plan.flops * static_cast<double>(t.accumulation)),
          " FLOP, ", show::count(t.accumulation), t.accumulation == 1 ? " micro-batch" : " micro-batches",
          " of at most ", show::plural(t.mine().planned.largest.all_tokens(), "token"), ranks_text(t), "\n");
  if (t.waits_for_checkpoints)
    text += str("checkpoints: training waits for them; there is no room for a snapshot of ",
                show::memory(plan.snapshot), " to write them beside it (checkpointing.async_save)\n");
  if (t.grid.pipeline > 1) text += pipeline_text(t, unit);
  if (t.cost) text += as_text(*t.cost);
  return text;
}

}  // namespace ft
