// A prompt and its answer, two fields of a row; for preferences the answer is the chosen one.
#include <algorithm>
#include <array>

#include "data/format.h"
#include "data/json_row.h"
#include "data/text_sample.h"

namespace ft {
namespace {

// `columns` decides; else the first of the usual names that the file has.
std::string pick(const DatasetConfig& dataset, std::initializer_list<const char*> ours,
                 std::initializer_list<const char*> usual, std::span<const std::string> names) {
  for (const char* name : ours)
    if (dataset.columns.contains(name)) return column(dataset, name);
  for (const char* name : usual)
    if (std::find(names.begin(), names.end(), name) != names.end()) return name;
  return *usual.begin();
}

class PromptFormat : public Format {
 public:
  PromptFormat(const FormatContext& context, std::span<const std::string> names, bool preferences)
      : prompt_(pick(context.dataset, {"prompt"}, {"prompt", "question"}, names)),
        answer_(preferences ? column(context.dataset, "chosen")
                            : pick(context.dataset, {"completion", "response"},
                                   {"completion", "response", "answer"}, names)),
        train_prompt_(context.data.train_on_inputs),
        builder_(context.tokenizer(), context.vocab_size, context.seq2seq) {}

  Sample read(std::string_view row, const Place& at) const override {
    std::array fields{Field{prompt_}, Field{answer_}};
    read_fields(row, at, fields);
    return builder_.prompt_and_answer(fields[0].text, fields[1].text, train_prompt_, at);
  }

 private:
  std::string prompt_, answer_;  // the fields' names in the file
  bool train_prompt_;
  TextSampleBuilder builder_;
};

}  // namespace

std::unique_ptr<Format> make_prompt_format(const FormatContext& context, std::span<const std::string> names,
                                           bool preferences) {
  return std::make_unique<PromptFormat>(context, names, preferences);
}

}  // namespace ft
