// The commands, their options, and what to run once they are parsed; one file for each group of commands.
// Only these files know CLI11.
#pragma once
#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "app/answers/chat.h"
#include "app/answers/generate.h"
#include "app/answers/metrics.h"
#include "app/answers/score.h"
#include "app/doctor/doctor.h"
#include "app/launch/launch.h"
#include "app/models/export.h"
#include "app/models/init.h"
#include "app/models/inspect.h"
#include "app/models/merge.h"
#include "app/models/quantize.h"
#include "app/plan/plan.h"
#include "app/report/report.h"
#include "app/samples/data_show.h"
#include "app/samples/data_stats.h"
#include "app/samples/tokenize.h"
#include "app/serve/serve.h"
#include "app/sweep/sweep.h"
#include "app/train/eval.h"
#include "app/train/profile.h"
#include "app/train/teach.h"
#include "app/train/train.h"
#include "app/train/validate.h"
#include "app/train/verify_zero.h"
#include "app/translate/translate.h"
#include "app/tune/tune.h"
#include "app/version/version.h"

namespace ft {

class CommandLine {
 public:
  using Names = std::vector<std::string>;

  CommandLine();
  Exit run(const Names& arguments);
  Names options() const;
  // What a shell offers for the last of these words, those before it being given.
  Names completions(const Names& words) const;
  std::string manual() const;  // in roff

 private:
  CLI::App* command(const std::string& name, const std::string& what, const std::string& examples,
                    CLI::App* under = nullptr);
  void about_a_run(CLI::App* app, ConfigArgs& args);
  void about_deepspeed(CLI::App* app, ConfigArgs& args);
  void training();
  void planning();
  void sweeping();
  void tuning();
  void several_ranks();
  void translation();
  void verification();
  void readiness();
  static const Names& rank_commands();
  Exit launch_command();
  void models();
  void answers();
  void serving();
  // What a command does with a model. An id on the hub is replaced by its folder before.
  void on_model(CLI::App* app, std::string& name, const std::function<Exit()>& action);
  void about_an_answerer(CLI::App* app, AnswererArgs& args, bool adapter = true);
  void data();
  void completion();
  void help();
  [[noreturn]] void refuse(const CLI::ParseError& error, const Names& arguments);

  CLI::App app_{"ft fine-tunes language models: LoRA, QLoRA and full, without Python."};
  std::function<Exit()> action_;
  TrainArgs train_;
  LaunchArgs launch_;
  TranslateArgs translate_;
  VerifyZeroArgs verify_zero_;
  DoctorArgs doctor_;
  EvalArgs eval_;
  TeachArgs teach_;
  ProfileArgs profile_;
  PlanArgs plan_;
  SweepArgs sweep_;
  ReportArgs report_;
  TuneArgs tune_;
  ValidateArgs validate_;
  DataShowArgs data_show_;
  DataStatsArgs data_stats_;
  MetricsArgs metrics_;
  ScoreArgs score_;
  MergeArgs merge_;
  QuantizeArgs quantize_;
  ExportArgs export_;
  InspectArgs inspect_;
  std::string checkpoint_;
  GenerateArgs generate_;
  AnswererArgs chat_;
  ServeArgs serve_;
  TokenizeOptions tokenize_;
  InitArgs init_;
  bool wants_version_ = false;
  std::string cuda_libs_;
  VersionArgs version_;
  Names topic_;
  bool wants_schema_ = false, wants_manual_ = false;
  std::string shell_;
};

// What the scripts of `ft completion` call.
inline const char* const kCompleteCommand = "--complete";

// What --dtype may say.
inline const CommandLine::Names kDtypes{"float32", "bfloat16", "float16"};
inline const CommandLine::Names kAnswerDtypes{"float32", "bfloat16", "float16", "auto"};

}  // namespace ft
