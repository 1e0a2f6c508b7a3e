// The verdict on each key of DeepSpeed's file.
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
  honoured,   // sets ft's setting of the same name
  mapped,     // sets settings of other names
  no_effect,  // changes nothing here
  rejected    // the run does not start
};
constexpr auto words(Verdict) {
  using enum Verdict;
  return to_words<Verdict>(
      {{honoured, "honoured"}, {mapped, "mapped"}, {no_effect, "no_effect"}, {rejected, "rejected"}});
}

// A leaf of the file.
struct Row {
  std::string key, known;  // name in the file; name in the table, empty: not in it
  Json value;              // value in effect, as DeepSpeed writes it
  Verdict verdict = Verdict::honoured;
  std::vector<std::string> to;  // settings that it sets
  std::string why;
  std::string place;       // file and line: ds.json:3
  bool automatic = false;  // "auto": the run's value replaces it
  bool surprise = false;   // a user would not expect the effect
};

// DeepSpeed's batch sizes: train and micro in samples, accumulation in micro-batches. `ranks`: the number of
// data-parallel ranks.
struct Batch {
  std::int64_t train = 0, micro = 0, accumulation = 0;
  int ranks = 1;
};

struct Report {
  std::string file;  // the file's name as the user wrote it; empty: there is none
  std::vector<Row> rows;
  std::optional<Batch> batch;
  std::vector<std::string> mistakes;
  std::string warmup;  // the run's warm-up setting, if it is a fraction of all steps

  Row* find(const std::string& known);
  const Row* find(const std::string& known) const;
  bool refused() const;
  void reject(Row&, const std::string& why);
};

// Thrown if the file is refused; `report` has the verdict on each key.
struct Refused : UserError {
  explicit Refused(Report r);
  Report report;
};

// True if a row waits for the numbers of steps and warm-up steps, which are known only when the data is read.
bool needs_steps(const Report&);
// Fills in the numbers of steps. Throws UserError (config), a Refused, if the file has other numbers.
void settle_steps(Report&, std::int64_t steps, std::int64_t warmup);

// Returns {"deepspeed": rows, "batch": ...}.
Json as_json(const Report&);
// Returns the text that a run's folder keeps: the file, and the values in effect.
std::string as_file(const Report&);
// Returns a line for each row; unless `all`, only for rejected and surprising rows. The verdicts stand in one
// column.
std::vector<std::string> as_lines(const Report&, bool all);

}  // namespace ft::deepspeed
