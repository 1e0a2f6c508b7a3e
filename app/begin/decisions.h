// Chooses the settings of a run from facts. The result depends on the arguments only.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "app/begin/facts.h"
#include "engine/files/json.h"
#include "engine/train/objectives/kind.h"

namespace ft {

// A chosen setting, and the reason for its value in a few words.
struct Decision {
  std::string key;  // training.learning_rate
  Json value;
  std::string reason;

  std::string assignment() const;  // training.learning_rate=0.0002
};

// Savings of memory to choose settings with.
struct Thrift {
  std::int64_t most_rows = INT64_MAX;  // sequences of a micro-batch
  bool bf16 = false;                   // on a CPU too
  int zero_stage = 0;
};

// Returns the given objective, or the one for the rows. Throws UserError (input, config) for rows, and for
// objectives, whose other settings cannot be chosen from the data.
const ObjectiveKind& objective_of(const BeginFacts&, const Json& given);

// Returns a decision for each setting that `given` lacks. The settings in `given` (nested, as in a
// configuration, and valid) are kept, and the others suit them.
std::vector<Decision> decide(const BeginFacts&, const Json& given, const Thrift& = {});

// Returns the value at a path such as training.learning_rate; null: it is not there.
const Json* find_setting(const Json& settings, const std::string& path);

}  // namespace ft
