// What became of each key of DeepSpeed's file.
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/words.h"
#include "engine/files/json.h"

namespace ft::deepspeed {

enum class Verdict : std::uint8_t {
  honoured,   // by ft's setting of the same name
  mapped,     // to others
  no_effect,  // changes nothing here
  rejected    // the run does not start
};
constexpr auto words(Verdict) {
  using enum Verdict;
  return to_words<Verdict>(
      {{honoured, "honoured"}, {mapped, "mapped"}, {no_effect, "no_effect"}, {rejected, "rejected"}});
}

// One leaf of the file.
struct Row {
  std::string key, known;  // as it is written; its name in the table; empty: it has none
  Json value;              // in effect, in DeepSpeed's words
  Verdict verdict = Verdict::honoured;
  std::vector<std::string> to;  // settings
  std::string why;
  std::string place;       // ds.json:3
  bool automatic = false;  // "auto", which the run's value replaces
  bool surprise = false;   // a user would not expect it
};

// The three numbers of a step, in samples and micro-batches; ranks: those with data of their own.
struct Batch {
  std::int64_t train = 0, micro = 0, accumulation = 0;
  int ranks = 1;
};

struct Report {
  std::string file;  // as the user wrote it; empty: there is none
  std::vector<Row> rows;
  std::optional<Batch> batch;
  std::vector<std::string> mistakes;
  std::string warmup;  // the run's setting for warmup_num_steps, where it is a fraction of all steps

  Row* find(const std::string& known);
  const Row* find(const std::string& known) const;
  bool refused() const;
  void reject(Row&, const std::string& why);
};

// The file is refused; what became of each key is in `report`.
struct Refused : UserError {
  explicit Refused(Report r);
  Report report;
};

// The number of the run's steps and those of its warm-up are known only when the data is read.
bool needs_steps(const Report&);
// Fills them in. UserError(Exit::config) where the file has others.
void settle_steps(Report&, std::int64_t steps, std::int64_t warmup);

// {"deepspeed": rows, "batch": ...}
Json as_json(const Report&);
// What a run's folder keeps: the file with the values in effect too.
std::string as_file(const Report&);
// A line for each row, or only for those that are rejected or a surprise; each with the column where its
// verdict begins.
std::vector<std::string> as_lines(const Report&, bool all);

}  // namespace ft::deepspeed
