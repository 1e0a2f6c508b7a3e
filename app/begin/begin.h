// Begins a run with one line: makes its configuration from a model, data and a few words, and chooses all
// other settings. For ft train --model, and for ft new.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "app/begin/decisions.h"
#include "app/begin/savings.h"
#include "app/config/config.h"
#include "app/screen/screen.h"
#include "engine/settings/fields.h"

namespace ft {

enum class BeginMethod : std::uint8_t { chosen, lora, qlora, full };

struct BeginArgs {
  std::string model;   // a folder, a GGUF file or an id of the hub; empty: the command has a configuration
  std::string data;    // a file, a folder, a glob or an id of the hub
  std::string output;  // the run's folder; empty: chosen
  BeginMethod method = BeginMethod::chosen;
  bool as_given = false;  // choose nothing: settings that are not given have their defaults
  bool operator==(const BeginArgs&) const = default;
};

class Beginning {
 public:
  // Reads the given settings. ranks: on each machine; 0: as the settings say. Throws UserError (config) for
  // mistakes in them.
  Beginning(const BeginArgs&, const std::vector<std::string>& overrides, int ranks = 0);

  // Returns the settings so far: before choose(), only those that are given.
  const RunConfig& config() const { return config_; }
  // Fetches models and data that are named by ids and missing, and chooses the other settings. Throws
  // UserError (memory), with settings that would help, if the run fits with no choice.
  const RunConfig& choose(Screen&);

  const std::vector<Decision>& decisions() const { return decisions_; }
  // Shows a line for each decision.
  void show(Screen&) const;
  // Returns the given and the chosen settings as a configuration for a file in `folder`.
  std::string as_file(const std::string& folder) const;

 private:
  void put(const Decision&);
  RunConfig with(const std::vector<Decision>&) const;
  void fetch();

  SettingsText given_;  // given and decided settings
  int ranks_;
  bool as_given_;
  RunConfig config_;
  std::vector<Decision> decisions_;
};

// Returns the folder for the run of these data: outputs/bikes for data/bikes.jsonl.
std::string default_output(const std::string& data);

}  // namespace ft
