// DeepSpeed's keys: what each may hold and what becomes of it. One table, a row a key; verdicts,
// documentation and tests follow from the rows.
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
  whole,   // a whole number, also 5e8 and 8.0
  number,  // a finite one
  text,
  list,     // of numbers or texts
  any,      // whatever it is, objects too
  numbers2  // two numbers
};

struct Value {
  Kind kind = Kind::any;
  double low = 0, high = 0;  // of numbers, both included
  bool above_low = false;    // but for low itself
  const char* words = "";    // of a text: "fp32, bf16"; empty: any
  const char* usual = "";    // DeepSpeed's default as JSON; empty: it has none
};

enum class Fate : std::uint8_t {
  same,        // ft's setting of the same name
  mapped,      // the settings `to`
  speed,       // `same`, where run.json leaves it open: it moves nothing but speed and memory
  no_effect,   // `why` says why nothing changes
  refused,     // `why` says what to do
  only_usual,  // refused where it is not DeepSpeed's default
  block_off,   // a block that ft does not have: refused unless its `enabled`, or it itself, is false
  renamed,     // an old name of the key `to`
};

struct Key {
  const char* name;  // zero_optimization.stage; a part may be *, any name
  Value value;
  Fate fate;
  const char* to = "";  // settings, "a, b"; in a block_off its keys
  const char* why = "";
  const char* of = "";  // types of optimizer or scheduler that take it, "Adam, AdamW"; empty: all
};

std::span<const Key> training_keys();
std::span<const Key> zero_keys();
std::span<const Key> data_keys();
std::span<const Key> other_keys();
const std::vector<const Key*>& all_keys();

// The row of a dotted key; null: there is none.
const Key* find_key(const std::string& name);
// The block_off that a key is or stands in; null: none.
const Key* find_block_off(const std::string& name);
// Whether keys stand below this one.
bool is_block(const std::string& name);
// Names of the keys and blocks of a block ("": of the file), without its own.
std::vector<std::string> names_in(const std::string& block);

// A dotted key's block, empty for the file, and its own name there.
std::string parent_of(const std::string& name);
std::string last_of(const std::string& name);
// The name that stands in the table for one that may be old: bfloat16.enabled -> bf16.enabled.
std::string new_name(const std::string& name);

// "a, b" as a list.
std::vector<std::string> split(std::string_view words);

// The value as it is meant: 5e8 becomes 500000000. What is wrong with it goes into `mistake`.
Json checked(const Value&, const Json& given, std::string& mistake);

}  // namespace ft::deepspeed
