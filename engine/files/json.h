// Strict JSON from untrusted files, and exact JSON to files. Every parser of the project uses this, so that
// limits, duplicate keys and the wording of errors are the same everywhere. Only json_fwd.hpp is included:
// code that needs the members of Json includes <nlohmann/json.hpp> in a .cpp; code that reads settings uses
// JsonObject.
#pragma once
#include <cstdint>
#include <limits>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/error.h"

namespace ft {

using Json = nlohmann::ordered_json;  // keys keep their order

// The treatment of NaN, Infinity and -Infinity, which Python writes and JSON does not have.
enum class NonFinite : std::uint8_t { refused, kept, null };

struct JsonRules {
  std::size_t max_bytes = std::size_t{16} << 20;
  int max_depth = 64;
  bool unique_keys = true;  // false: the last of equal keys wins, as in Python
  Exit exit = Exit::input;  // of every error
  NonFinite non_finite = NonFinite::refused;
};

// The origin of a text, for messages: "FILE:LINE: not JSON: expected ',' or '}' at column 22".
struct JsonSource {
  std::string file;             // as the user wrote it
  std::int64_t first_line = 1;  // line of the text's first byte, for JSONL
};

// Parses a text. Throws UserError (rules.exit) if it has trailing commas, comments, ill-formed UTF-8, numbers
// beyond double, text after the value or, by default, NaN or Infinity. The error shows the line.
Json parse_json(std::string_view text, const JsonSource& source, const JsonRules& rules = {});
Json read_json(const std::string& path, const JsonRules& rules = {});

// Returns the text of a value: floats round-trip, keys keep their order, non-ASCII characters are escaped, as
// json.dumps does. indent 2 is Hugging Face's style, -1 one line. Throws InternalError for NaN and Inf, which
// JSON does not have.
std::string json_text(const Json& value, int indent = 2);
// Returns a number, or null if it is not finite.
Json finite_or_null(double x);
// Returns a number as JSON; NaN, Infinity and -Infinity as Python writes them.
std::string json_number(double value);
// Returns the text of a value for an error message: one line, cut, without control characters.
std::string json_excerpt(const Json& value);

// For texts too large for a tree: the parser's events, in order. A handler refuses a text by throwing.
class JsonEvents {
 public:
  virtual ~JsonEvents() = default;
  virtual void on_null() = 0;
  virtual void on_bool(bool) = 0;
  virtual void on_integer(std::int64_t) = 0;    // negative
  virtual void on_unsigned(std::uint64_t) = 0;  // 0 and above
  virtual void on_float(double) = 0;            // finite unless the rules keep others
  virtual void on_text(std::string&) = 0;       // may be moved from
  virtual void on_key(std::string&) = 0;        // may be moved from
  virtual void on_object(bool begins) = 0;
  virtual void on_array(bool begins) = 0;
  std::size_t offset = 0;  // bytes read so far; at a key or text, just after its closing quote
};
// Checks max_depth and the syntax; checking unique_keys is the handler's task.
void parse_json(std::string_view text, const JsonSource& source, JsonEvents& events, const JsonRules& = {});

// An object of a JSON file whose errors name the file and the key:
//   models/x/config.json: hidden_size must be a positive integer, is "abc"
// A key that is null counts as absent, as in Hugging Face's files. A getter without a fallback requires the
// key.
class JsonObject {
 public:
  static JsonObject read(const std::string& path, const JsonRules& rules = {});
  static JsonObject parse(std::string_view text, const JsonSource& source, const JsonRules& rules = {});

  static constexpr std::int64_t kMaxInt = std::numeric_limits<std::int64_t>::max();

  bool has(std::string_view key) const;  // present and not null
  bool is_text(std::string_view key) const;
  bool is_array(std::string_view key) const;
  bool is_object(std::string_view key) const;
  bool is_bool(std::string_view key) const;
  bool is_number(std::string_view key) const;

  std::int64_t integer(std::string_view key, std::int64_t min, std::int64_t max = kMaxInt) const;
  std::int64_t integer_or(std::string_view key, std::int64_t fallback, std::int64_t min,
                          std::int64_t max = kMaxInt) const;
  std::int64_t positive(std::string_view key) const { return integer(key, 1); }
  std::int64_t positive_or(std::string_view key, std::int64_t fallback) const {
    return integer_or(key, fallback, 1);
  }
  double number(std::string_view key) const;  // finite
  double number_or(std::string_view key, double fallback) const;
  double positive_number_or(std::string_view key, double fallback) const;  // > 0
  bool boolean(std::string_view key) const;
  bool boolean_or(std::string_view key, bool fallback) const;
  std::string text(std::string_view key) const;
  std::string text_or(std::string_view key, const std::string& fallback) const;
  std::vector<std::string> texts(std::string_view key) const;      // an array of strings
  std::vector<std::int64_t> integers(std::string_view key) const;  // an array of integers, or one integer
  std::vector<double> numbers(std::string_view key) const;         // an array of finite numbers
  JsonObject object(std::string_view key) const;                   // keys in messages become "key.inner"
  std::vector<JsonObject> objects(std::string_view key) const;     // an array of objects: "key[0].inner"
  std::vector<std::string> keys() const;                           // in the file's order

  const std::string& file() const { return file_; }
  const Json& json() const { return *node_; }
  // Throws "FILE: KEY must be WHAT, is VALUE" (or "has no KEY" when it is absent).
  [[noreturn]] void refuse(std::string_view key, std::string_view must_be) const;

 private:
  JsonObject(std::shared_ptr<const Json> root, const Json* node, std::string file, std::string path,
             Exit exit);
  const Json* find(std::string_view key) const;  // nullptr when absent or null
  const Json& at(std::string_view key, std::string_view must_be) const;

  std::shared_ptr<const Json> root_;  // shared with the objects inside it
  const Json* node_;
  std::string file_, path_;  // path_: "" or "outer."
  Exit exit_;
};

}  // namespace ft
