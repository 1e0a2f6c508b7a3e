// What a report shows of a run, as the run's folder says it.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "app/plot/reward_panel.h"
#include "engine/files/json.h"
#include "engine/train/reports/report.h"

namespace ft {

// Figures of a step that have a curve.
struct StepFigures {
  std::int64_t step = 0;
  double loss = 0, learning_rate = 0, grad_norm = 0, tokens_per_second = 0;
};

// The curves of a run: of every step where the run itself draws them, else of the log's rows.
struct RunCurves {
  std::vector<StepFigures> steps;
  RewardCurves rewards;

  void add(const StepRow& row);
};

struct RunPage {
  std::string name;
  std::vector<std::pair<std::string, std::string>> facts;     // in words: "model", "6.74 B parameters, bf16"
  std::vector<std::pair<std::string, std::string>> settings;  // by dotted name
  History rows;                                               // of the log
  RunCurves curves;
  MemoryReport memory;  // 0 bytes: unknown
  double seconds = 0, tokens_per_second = 0;
  bool ended = false;

  struct Sample {
    std::string prompt, expected, before, after;
  };
  std::vector<Sample> samples;  // of evaluation.predict_with_generate
};

// Reads log.jsonl, and samples.json if there is one, of a folder whose run has these settings.
RunPage run_page(const std::string& folder, const std::string& settings);
// The same with the settings in run.json. UserError(Exit::input) where the folder holds no run.
RunPage read_run_page(const std::string& folder);

// What only the run itself knows, as facts: model, adapter, data, machine, version.
std::vector<std::pair<std::string, std::string>> facts_of(const RunHeader&);

}  // namespace ft
