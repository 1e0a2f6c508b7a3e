// The flags of programs that people start with DeepSpeed: how a value is read, and what becomes of it in
// run.json. One table for each program; verdicts, documentation and tests follow from the rows.
#pragma once
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/files/json.h"

namespace ft::translate {

// As argparse and transformers' HfArgumentParser read them.
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
  same,        // the value is that of the setting `to`
  own,         // the program's own code makes settings of it
  no_effect,   // `why` says why nothing changes
  refused,     // `why` says what to do
  refused_on,  // refused where it is true
};

struct Flag {
  const char* name;  // without its dashes, with underscores
  ValueKind kind;
  Fate fate;
  const char* to;  // training.learning_rate; empty: nothing
  const char* why;
};

// A flag as it was given, and what became of it: honoured (a setting of the same name), mapped, no_effect or
// rejected.
struct Row {
  std::string flag;  // --learning_rate
  Json value;
  std::string verdict, to, why;
};

// What was given, by name.
class Given {
 public:
  void set(const std::string& name, Json value);
  bool has(const std::string& name) const { return values_.contains(name); }
  const Json& at(const std::string& name) const { return values_.at(name); }
  bool on(const std::string& name, bool otherwise = false) const;  // a toggle or boolean
  std::string text(const std::string& name, const std::string& otherwise = "") const;
  double number(const std::string& name, double otherwise) const;

 private:
  std::map<std::string, Json> values_;
};

// What is made of a command line.
struct Draft {
  Draft();
  Json config;  // run.json
  std::vector<Row> rows;
  std::vector<std::string> warnings;
  std::vector<std::string> environment, launch;  // NAME=VALUE; words after ft launch; empty: one process
  std::vector<std::string> command{"train"};     // of ft, up to --config
  std::vector<std::string> options;              // of that command, after --config

  // "data.max_seq_length"; with `only_if_open`, where the command line has not said it.
  void set(const std::string& path, Json value, bool only_if_open = false);
  bool refused() const;
};

using Table = std::vector<const Flag*>;
// The first of equal names wins.
Table joined(std::initializer_list<std::pair<const Flag*, std::size_t>> tables);

// Takes flags and their values from the front of `words`, up to the first word that is neither; adds a row
// for each, settings for those with Fate::same, and hands back all values. UserError(Exit::config) for a flag
// that is not in the table, with the nearest, and for a value that is none.
Given take_flags(std::vector<std::string>& words, const Table&, const std::string& program, Draft&);
// The same for all words.
Given read_flags(std::vector<std::string> words, const Table&, const std::string& program, Draft&);

}  // namespace ft::translate
