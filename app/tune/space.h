// What ft tune varies: settings that change how fast a run is and how much memory it takes, but not what it
// learns (beyond rounding). The sequences of an optimizer step stay as configured: a smaller micro-batch
// takes more gradient accumulation.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "app/config/config.h"
#include "engine/files/json.h"

namespace ft {

struct TuneDimension {
  std::string path;          // training.gradient_checkpointing
  std::string label;         // recompute
  std::vector<Json> values;  // at least one
};

struct TunePoint {
  std::vector<std::size_t> choice;  // of each dimension; of one that has no effect here its first value
  std::vector<std::string> values;  // of each dimension as a person reads it; empty where it has no effect
  RunConfig config;
};

struct TuneSpace {
  RunConfig own;  // the configuration as it is
  std::vector<TuneDimension> dimensions;
  std::vector<TunePoint> points;     // every combination that the settings allow, each once
  std::optional<std::size_t> start;  // the point that is `own`
  std::int64_t refused = 0;          // combinations that contradict themselves
};

// A setting that is given on the command line is not varied; tune.space replaces or adds values. `cores`: of
// this machine, which ranks share. UserError(Exit::config) names the setting.
TuneSpace read_tune_space(const std::string& file, const std::vector<std::string>& overrides, int cores);

}  // namespace ft
