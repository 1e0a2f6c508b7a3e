// trials.jsonl: each trial of ft tune as a line, written when it ends, so that nothing is measured twice.
#pragma once
#include <map>
#include <string>

#include "app/tune/trial.h"
#include "engine/train/reports/run_file.h"

namespace ft {

class TrialsFile {
 public:
  // Reads the file if it exists. Removes an incomplete last line. Throws UserError (input) if another line is
  // not a trial.
  explicit TrialsFile(const std::string& path);

  // Returns a key for all settings of a trial.
  static std::string key(const RunConfig&);
  const TrialOutcome* find(const std::string& key) const;
  // `settings`: JSON for people.
  void add(const std::string& key, const std::string& settings, const TrialOutcome&);

 private:
  std::map<std::string, TrialOutcome> known_;
  RunFile file_;
};

}  // namespace ft
