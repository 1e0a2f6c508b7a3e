// The flags of programs that people start with DeepSpeed: their kinds of values, and their effect in
// run.json. One table for each program; verdicts, documentation and tests use its rows.
#pragma once
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/files/json.h"

namespace ft::translate {

// Kinds of values, as argparse and transformers' HfArgumentParser read them.
enum class ValueKind : std::uint8_t {
  toggle,   // takes no value
  boolean,  // --fp16, --fp16 true, --no_fp16
  whole,
  number,
  text,
  texts,  // all words up to the next flag
  secret  // a text that is not shown
};

enum class Fate : std::uint8_t {
  same,        // sets `to` to the value
  own,         // the program's code makes settings from it
  no_effect,   // changes nothing; `why` says why
  refused,     // an error; `why` tells the user what to do
  refused_on,  // an error if it is true
};

struct Flag {
  const char* name;  // with underscores, without leading dashes
  ValueKind kind;
  Fate fate;
  const char* to;  // training.learning_rate; empty: no setting
  const char* why;
};

// A given flag and its verdict: honoured (sets a setting of the same name), mapped, no_effect or rejected.
struct Row {
  std::string flag;  // --learning_rate
  Json value;
  std::string verdict, to, why;
};

// The given values, by the flags' names.
class Given {
 public:
  void set(const std::string& name, Json value);
  bool has(const std::string& name) const { return values_.contains(name); }
  const Json& at(const std::string& name) const { return values_.at(name); }
  bool on(const std::string& name, bool otherwise = false) const;  // value of a toggle or boolean
  std::string text(const std::string& name, const std::string& otherwise = "") const;
  double number(const std::string& name, double otherwise) const;

 private:
  std::map<std::string, Json> values_;
};

// The translation of a command line.
struct Draft {
  Draft();
  Json config;  // run.json
  std::vector<Row> rows;
  std::vector<std::string> warnings;
  std::vector<std::string> environment, launch;  // NAME=VALUE; words after ft launch, empty: one process
  std::vector<std::string> command{"train"};     // words after ft, up to --config
  std::vector<std::string> options;              // words after --config FILE

  // Sets "data.max_seq_length" and the like; with `only_if_open`, only if it is not set yet.
  void set(const std::string& path, Json value, bool only_if_open = false);
  bool refused() const;
};

using Table = std::vector<const Flag*>;
// Joins tables; the first of equal names wins.
Table joined(std::initializer_list<std::pair<const Flag*, std::size_t>> tables);

// Takes flags and their values from the front of `words`, up to the first word that is neither. Adds a row
// for each and settings for those with Fate::same, and returns all values. Throws UserError (config) for a
// flag that is not in the table, naming the nearest, and for a wrong value.
Given take_flags(std::vector<std::string>& words, const Table&, const std::string& program, Draft&);
// Takes flags like take_flags, but throws UserError (config) if words remain.
Given read_flags(std::vector<std::string> words, const Table&, const std::string& program, Draft&);

}  // namespace ft::translate
