// Facts about a model, its data and this machine, from which the settings of a run are chosen.
#pragma once
#include <cstdint>
#include <string>

#include "app/config/config.h"
#include "app/screen/screen.h"
#include "data/rows/dataset.h"

namespace ft {

// Lengths of samples, or of one side of them, in tokens.
struct LengthFacts {
  std::int64_t p99 = 0;  // 99 % of them have at most this many
  std::int64_t longest = 0;
  double mean = 0;
};

struct BeginFacts {
  std::int64_t parameters = 0;
  std::int64_t positions = 0;  // length limit of the model in tokens; 0: none
  bool encoder_decoder = false;
  RowKind rows = RowKind::example;
  std::int64_t samples = 0;
  LengthFacts lengths =
      {};  // of samples; of the longer answer, with its prompt; encoder-decoders: of sources
  LengthFacts targets = {};  // encoder-decoders only
  int ranks = 1;             // that train on different samples
  bool gpu = false;          // the run computes on one
  bool fast_bf16 = false;    // the processor computes bfloat16 in hardware
  std::string device = {};   // reason for the choice of the device, as text
};

// Returns the 99th percentile, the maximum and the mean. Lengths in any order; empty: zeros.
LengthFacts length_facts(std::vector<std::int64_t> lengths);

// Returns the facts about this machine and the ranks. `gpu`: the configured device; empty: a GPU if there is
// one that ft can use.
BeginFacts machine_facts(std::optional<bool> gpu, int ranks);

// Adds the facts about the model and the kind of the data's rows. Reads config.json and a first row.
void add_model_facts(BeginFacts&, const RunConfig&);

// Adds the number and the lengths of the samples: reads all of the training data. The configuration must have
// the objective for the rows. Throws UserError (input) as the run would for mistakes in the data.
void add_data_facts(BeginFacts&, RunConfig, Screen&);

}  // namespace ft
