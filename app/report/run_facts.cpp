#include "app/report/run_facts.h"

#include <nlohmann/json.hpp>

#include "app/screen/format.h"
#include "app/screen/run_text.h"
#include "engine/files/file.h"
#include "engine/train/reports/rows.h"

namespace ft {
namespace {

constexpr std::size_t kLargestFacts = std::size_t{1} << 20;

std::string machine_of(const RunHeader& h) {
  std::string machine = h.processor.empty() ? "" : h.processor + ", ";
  machine += h.ranks.empty() ? "one rank" : h.ranks + " ranks";
  if (h.memory_there > 0) machine += ", " + show::memory(h.memory_there);
  if (h.peak_flops > 0) machine += ", " + show::digits(h.peak_flops / 1e12) + " TFLOP/s";
  return machine;
}

// Returns model, adapter, data, machine, versions.
Json facts_of(const RunHeader& h) {
  Json facts = Json::object();
  facts["model"] = str(h.model, ", ", h.architecture, ", ", show::quantity(static_cast<double>(h.parameters)),
                       " parameters, ", h.dtype);
  const std::string trained = show::quantity(static_cast<double>(h.trained_parameters)) + " trained";
  if (h.adapter)
    facts["adapter"] = str(h.adapter->kind, " ", h.adapter->size,
                           h.adapter->alpha ? ", alpha " + show::number(*h.adapter->alpha) : "", ", on ",
                           h.adapter->linears, " linears, ", trained);
  else
    facts["trained"] = "all weights, " + trained;
  if (h.data.samples > 0)
    facts["data"] = str(sample_text(h.data), "; ", show::count(h.data.held_out), " held out");
  const std::string epochs = h.epochs < 1    ? show::digits(h.epochs, 2) + " of an epoch"
                             : h.epochs == 1 ? "1 epoch"
                                             : show::number(h.epochs) + " epochs";
  facts["steps"] = str(show::plural(h.steps, "step"), " of ", sequences_text(h), "; ", epochs);
  if (h.learning_rate > 0) facts["rate"] = rate_text(h);
  facts["machine"] = machine_of(h);
  if (!h.started.empty()) facts["begun"] = h.started;
  facts["versions"] = "ft " + h.version + (h.cudnn.empty() ? "" : ", cuDNN " + h.cudnn);
  return facts;
}

}  // namespace

void RunFacts::begin(const RunHeader& header) {
  const Json all = {{"facts", facts_of(header)},
                    {"max_steps", header.steps},
                    {"planned_memory", memory_json(header.memory)}};
  write_file(path_, json_text(all) + "\n");
}

void read_run_facts(const std::string& folder, RunPage& page) {
  const std::string file = join_path(folder, "run_facts.json");
  if (!path_exists(file)) return;
  const Json all = read_json(file, {.max_bytes = kLargestFacts});
  const auto facts = all.find("facts");
  if (!all.is_object() || facts == all.end() || !facts->is_object())
    throw UserError(Exit::input, printable(file) + ": it has no facts of a run");
  for (const auto& [name, value] : facts->items())
    if (value.is_string()) page.facts.emplace_back(name, value.get<std::string>());
  page.max_steps = whole_number(all, "max_steps");
  if (const auto memory = all.find("planned_memory"); memory != all.end()) page.memory = memory_of(*memory);
}

}  // namespace ft
