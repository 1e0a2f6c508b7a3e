// DeepSpeed's keys: each key's allowed values, and its effect in ft. One table with a row for each key;
// verdicts, documentation and tests use its rows.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/files/json.h"

namespace ft::deepspeed {

enum class Kind : std::uint8_t {
  flag,    // true or false
  whole,   // a whole number, 5e8 and 8.0 too
  number,  // a finite number
  text,
  list,     // of numbers or texts
  any,      // any value, objects too
  numbers2  // two numbers
};

struct Value {
  Kind kind = Kind::any;
  double low = 0, high = 0;  // limits of numbers, both included
  bool above_low = false;    // excludes `low` itself
  const char* words = "";    // allowed texts: "fp32, bf16"; empty: any
  const char* usual = "";    // DeepSpeed's default as JSON; empty: it has none
};

enum class Fate : std::uint8_t {
  same,        // sets ft's setting of the same name
  mapped,      // sets the settings `to`
  speed,       // `same`, but run.json wins: it affects only speed and memory
  no_effect,   // changes nothing; `why` says why
  refused,     // an error; `why` tells the user what to do
  only_usual,  // an error unless the value is DeepSpeed's default
  block_off,   // a block that ft lacks: an error unless it or its `enabled` is false
  renamed,     // an old name of the key `to`
};

struct Key {
  const char* name;  // zero_optimization.stage; a part * matches any name
  Value value;
  Fate fate;
  const char* to = "";  // settings, "a, b"; for block_off: the block's keys
  const char* why = "";
  const char* of = "";  // optimizer or scheduler types that take it: "Adam, AdamW"; empty: all
};

std::span<const Key> training_keys();
std::span<const Key> zero_keys();
std::span<const Key> data_keys();
std::span<const Key> other_keys();
const std::vector<const Key*>& all_keys();

// Returns the row of a dotted key, or null.
const Key* find_key(const std::string& name);
// Returns the block_off row that is the key or contains it, or null.
const Key* find_block_off(const std::string& name);
// True if `name` is a block of other keys.
bool is_block(const std::string& name);
// Returns the names of the keys and blocks directly in a block ("": in the file).
std::vector<std::string> names_in(const std::string& block);

// A dotted key's block ("": the file), and the last part of its name.
std::string parent_of(const std::string& name);
std::string last_of(const std::string& name);
// Returns the table's name for a key that may have an old name: bfloat16.enabled -> bf16.enabled.
std::string new_name(const std::string& name);

// Splits "a, b" into a list.
std::vector<std::string> split(std::string_view words);

// Checks a value and converts it to its kind: 5e8 becomes 500000000. Describes an error in `mistake`.
Json checked(const Value&, const Json& given, std::string& mistake);

}  // namespace ft::deepspeed
