// The flags and keys of other programs: their kinds of values, and their effect in run.json. One table for
// each program; verdicts, documentation and tests use its rows.
#pragma once
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/files/json.h"
#include "engine/settings/fields.h"

namespace ft::translate {

// Kinds of values, as argparse and transformers' HfArgumentParser read them.
enum class ValueKind : std::uint8_t {
  toggle,   // takes no value
  boolean,  // --fp16, --fp16 true, --no_fp16
  whole,
  number,
  text,
  texts,   // all words up to the next flag
  secret,  // a text that is not shown
  any      // only in files: lists and mappings too
};

enum class Fate : std::uint8_t {
  same,        // sets `to` to the value
  own,         // the program's code makes settings from it
  no_effect,   // changes nothing; `why` says why
  refused,     // an error; `why` tells the user what to do
  refused_on,  // an error if it is true
  refused_but  // an error unless it is one of the words in `to`: "a, b"
};

struct Flag {
  const char* name;  // with underscores, without leading dashes; in files trl.beta, datasets[].path
  ValueKind kind;
  Fate fate;
  const char* to;  // training.learning_rate; empty: no setting
  const char* why;
};

// A program's default that differs from ft's.
struct Default {
  const char* name;   // the program's flag or key
  const char* to;     // setting
  const char* value;  // as JSON
};

// A given flag and its verdict: honoured (sets a setting of the same name), mapped, no_effect or rejected; or
// default: it is not given, and the program's default is written out.
struct Row {
  std::string flag;  // --learning_rate; of files learning_rate
  Json value;
  std::string verdict, to, why;
  int line = 0;  // in the file; 0: on a command line, or a default
};

// The given values, by the flags' names.
class Given {
 public:
  void set(const std::string& name, Json value);
  void take(const Given& other);  // replaces and adds values
  bool has(const std::string& name) const { return values_.contains(name); }
  const Json& at(const std::string& name) const { return values_.at(name); }
  bool on(const std::string& name, bool otherwise = false) const;  // value of a toggle or boolean
  Json json(const std::string& name) const;                        // null if it is not given
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
  const Json* find(const std::string& path) const;  // null: it is not set
  void erase(const std::string& path);
  // Sets an open setting to a default of the program, and adds a row.
  void otherwise(const std::string& name, const std::string& path, const Json& value);
  void otherwise(std::span<const Default>);

  // Change the verdict of a flag, given with or without dashes; add a row if there is none.
  Row& row(const std::string& flag);
  bool has_row(const std::string& beginning) const;  // a key with this beginning has a value
  void reject(const std::string& flag, const std::string& why);
  void ignore(const std::string& flag, const std::string& why);
  void map(const std::string& flag, const std::string& to, const std::string& why = "");
  bool refused() const;
};

// The value of a word, or null if it is not of the kind.
std::optional<Json> value_of(ValueKind, const std::string& word);
const char* wanted(ValueKind);  // "a number"

// Adds a row for a given flag, and sets the setting of Fate::same.
void judge(const Flag&, const std::string& shown, const Json& value, int line, Draft&);

using Table = std::vector<const Flag*>;
// Joins tables; the first of equal names wins.
Table joined(std::initializer_list<std::span<const Flag>> tables);

// Takes flags and their values from the front of `words`, up to the first word that is neither. Adds a row
// for each and settings for those with Fate::same, and returns all values. Throws UserError (config) for a
// flag that is not in the table, naming the nearest, and for a wrong value.
Given take_flags(std::vector<std::string>& words, const Table&, const std::string& program, Draft&);
// Takes the keys of a file: a row for each, and settings for those with Fate::same. Keys without a row in
// the table are rejected, with the nearest name. Throws UserError (config) for a wrong value, with its
// line.
Given read_keys(const SettingsText& file, const Table&, const std::string& program, Draft&);
// Takes flags like take_flags, but throws UserError (config) if words remain.
Given read_flags(std::vector<std::string> words, const Table&, const std::string& program, Draft&);

}  // namespace ft::translate
