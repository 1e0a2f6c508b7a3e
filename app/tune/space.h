// The settings that ft tune varies: they change a run's speed and memory, but not its result (except for
// rounding). The sequences of an optimizer step stay as configured: a smaller micro-batch has more gradient
// accumulation.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "app/config/config.h"
#include "engine/files/json.h"

namespace ft {

struct TuneDimension {
  std::string path;          // e.g. training.gradient_checkpointing
  std::string label;         // e.g. recompute
  std::vector<Json> values;  // at least one
};

struct TunePoint {
  std::vector<std::size_t> choice;  // index of each dimension's value; 0 if it has no effect here
  std::vector<std::string> values;  // each dimension's value as text; empty if it has no effect here
  RunConfig config;
};

struct TuneSpace {
  RunConfig own;  // the unchanged configuration
  std::vector<TuneDimension> dimensions;
  std::vector<TunePoint> points;     // every combination that the settings allow, once
  std::optional<std::size_t> start;  // the point that equals `own`
  std::int64_t refused = 0;          // number of combinations that contradict themselves
};

// Reads the space. Settings of the command line are not varied; tune.space replaces or adds values. `cores`:
// this machine's, shared by its ranks. Throws UserError (config) that names the setting.
TuneSpace read_tune_space(const std::string& file, const std::vector<std::string>& overrides, int cores);

}  // namespace ft
