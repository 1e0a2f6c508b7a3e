// The commands: each a function in a file of its own, given what the command line said. Answers go to stdout,
// everything else to stderr. They return the exit code or throw; command_line.cpp prints what they throw.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/error.h"

namespace ft {

// Commands about a run: its configuration, and "a.b=c" that override it.
struct ConfigArgs {
  std::string config;
  std::vector<std::string> overrides;
};

struct TrainArgs : ConfigArgs {
  bool overwrite = false;  // replace a run that the output folder holds
  std::string trace;       // file for a timeline of a few steps; empty: none
};
Exit train(const TrainArgs&);

struct EvalArgs : ConfigArgs {
  std::string adapter;  // empty: the model alone, or with lora.adapter_name_or_path
  std::int64_t answers = 0;
  bool json = false;
};
Exit eval(const EvalArgs&);

struct PlanArgs : ConfigArgs {
  std::string model;  // a model folder or a config.json instead of a configuration
  bool json = false;
  double parameters = 0;   // instead of both: so many trained parameters
  std::int64_t ranks = 0;  // 0: as configured
  std::string gpu;         // empty: the device of the configuration, on this machine
};
Exit plan(const PlanArgs&);
Exit plan_by_formula(const PlanArgs&);

struct VerifyZeroArgs : ConfigArgs {
  std::vector<int> ranks{1, 2};
  std::int64_t steps = 3;
};
// Exit::mismatch when something is not as it should be.
Exit verify_zero(const VerifyZeroArgs&);

struct SweepArgs : ConfigArgs {
  bool dry_run = false;  // plan every run, start none
  bool longest = false;  // instead of training: the longest max_seq_length that fits, for each of the others
};
Exit sweep(const SweepArgs&);

Exit validate(const ConfigArgs&);

struct DataShowArgs : ConfigArgs {
  bool json = false;
  std::optional<std::int64_t> limit;  // samples
};
Exit data_show(const DataShowArgs&);

struct DataStatsArgs : ConfigArgs {
  bool json = false;
};
Exit data_stats(const DataStatsArgs&);

struct MetricsArgs {
  std::string hypotheses, references;  // files of lines
  bool use_stemmer = false;
  bool json = false;
};
Exit metrics_command(const MetricsArgs&);

struct MergeArgs {
  std::string model, adapter, output;
  std::string dtype;  // float32, bfloat16, float16; empty: the model's
  bool overwrite = false;
};
Exit merge(const MergeArgs&);

struct ExportArgs {
  std::string to;      // peft, hf, gguf, gguf-lora
  std::string from;    // a run folder, a checkpoint, a model or an adapter
  std::string output;  // a new folder; of GGUF a file
  std::string dtype;   // as in merge; q8_0 with gguf
  bool overwrite = false;
};
Exit export_model(const ExportArgs&);

// Commands in which a model answers.
struct AnswererArgs {
  std::string model;                   // a folder
  std::string adapter;                 // empty: none
  std::string dtype = "float32";       // of the computation: float32, bfloat16, float16
  std::vector<std::string> overrides;  // generation.key=value
  bool conversation = false;           // data.chat_template counts
};

struct GenerateArgs : AnswererArgs {
  std::string input, output;  // JSON lines
  std::string prompt;         // instead: one text, answered on stdout
  bool overwrite = false;     // replace the output file
};
Exit generate(const GenerateArgs&);

Exit chat(const AnswererArgs&);

struct InspectArgs {
  std::string path;
  bool json = false;
};
Exit inspect(const InspectArgs&);

// Exit::checkpoint when one is damaged; a run's folder stands for all of its checkpoints.
Exit checkpoint_verify(const std::string& path);

struct InitArgs {
  std::string config;  // a config.json
  std::string output;  // a new folder
  std::int64_t seed = 42;
  std::string dtype;  // float32, bfloat16, float16; empty: config.json's, else float32
};
Exit init(const InitArgs&);

// `ft help config [section]`: the table of settings.
Exit help_config(const std::string& section);

struct VersionArgs {
  bool json = false;
};
Exit version(const VersionArgs&);

}  // namespace ft
