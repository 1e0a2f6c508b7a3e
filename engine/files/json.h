// Strict JSON from untrusted files, and exact JSON to files. Every parser of the project goes through here,
// so that limits, duplicate keys and the wording of errors are the same everywhere. Only json_fwd.hpp is
// included: code that needs the members of Json includes <nlohmann/json.hpp> in a .cpp; code that reads
// settings uses JsonObject.
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
  bool unique_keys = true;  // false: the last of equal keys counts, as in Python
  Exit exit = Exit::input;  // of every error
  NonFinite non_finite = NonFinite::refused;
};

// Where a text comes from, for messages: "FILE:LINE: not JSON: expected ',' or '}' at column 22".
struct JsonSource {
  std::string file;             // as the user wrote it
  std::int64_t first_line = 1;  // line of the text's first byte, for JSONL
};

// The text's value. Trailing commas, comments, ill-formed UTF-8, numbers beyond double, anything after the
// value and, without another rule, NaN and Infinity are refused with a UserError that shows the line.
Json parse_json(std::string_view text, const JsonSource& source, const JsonRules& rules = {});
Json read_json(const std::string& path, const JsonRules& rules = {});

// The text of a value: floats round-trip, keys keep their order, not-ASCII is escaped, as json.dumps does.
// indent 2 is Hugging Face's style, -1 one line. NaN and Inf are an InternalError: JSON cannot say them.
std::string json_text(const Json& value, int indent = 2);
// A number, or null where it is not finite.
Json finite_or_null(double x);
// A number as JSON writes it; NaN, Infinity and -Infinity as Python does.
std::string json_number(double value);
// The text of a value as shown in an error: one line, cut, no control characters.
std::string json_excerpt(const Json& value);

// For texts too large for a tree: what the parser meets, in order. A handler refuses by throwing.
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
  std::size_t offset = 0;  // bytes read so far: at a key or text, just behind its closing quote
};
// max_depth and the syntax are checked; unique_keys is the handler's business.
void parse_json(std::string_view text, const JsonSource& source, JsonEvents& events, const JsonRules& = {});

// An object of a JSON file that says which file and key is wrong:
//   models/x/config.json: hidden_size must be a positive integer, is "abc"
// A key that is null counts as absent, as in Hugging Face's files. A getter without a fallback requires the
// key.
class JsonObject {
 public:
  static JsonObject read(const std::string& path, const JsonRules& rules = {});
  static JsonObject parse(std::string_view text, const JsonSource& source, const JsonRules& rules = {});

  static constexpr std::int64_t kMaxInt = std::numeric_limits<std::int64_t>::max();

  bool has(std::string_view key) const;  // there, and not null
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
