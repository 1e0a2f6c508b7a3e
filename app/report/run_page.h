// A run's data for a report, read from the run's folder.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "app/plot/reward_panel.h"
#include "engine/files/json.h"
#include "engine/train/reports/report.h"

namespace ft {

// Numbers of a step that are drawn as curves.
struct StepFigures {
  std::int64_t step = 0;
  double loss = 0, learning_rate = 0, grad_norm = 0, tokens_per_second = 0;
};

// The curves of a run: of every step if the run itself draws them, else of the log's rows.
struct RunCurves {
  std::vector<StepFigures> steps;
  RewardCurves rewards;

  void add(const StepRow& row);
};

struct RunPage {
  std::string name;
  std::vector<std::pair<std::string, std::string>> facts;     // e.g. "model", "6.74 B parameters, bf16"
  std::vector<std::pair<std::string, std::string>> settings;  // by dotted name
  History rows;                                               // the log's rows
  RunCurves curves;
  std::int64_t max_steps = 0;  // 0: unknown
  MemoryReport memory;         // planned, once the run has ended measured; 0 bytes: unknown
  double seconds = 0, tokens_per_second = 0;
  bool ended = false;

  struct Sample {
    std::string prompt, expected, before, after;
  };
  std::vector<Sample> samples;  // answers of evaluation.predict_with_generate
};

// Reads the files of a run's folder that are there: run_facts.json, log.jsonl, samples.json. `settings`: the
// run's settings.
RunPage run_page(const std::string& folder, const std::string& settings);
// Reads a folder with the settings in its run.json. Throws UserError (input) if the folder holds no run.
RunPage read_run_page(const std::string& folder);

// Returns a number in a JSON object; 0 if there is none.
std::int64_t whole_number(const Json& object, const char* key);
// Returns the bytes in a row's memory.
MemoryReport memory_of(const Json& row);

}  // namespace ft
