// A prompt and its answer, two fields of a row. They are tokenized separately and joined, so that the border
// of what is trained is exact: what the tokenizer puts before a text, the prompt, the answer, EOS.
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
  PromptFormat(const FormatContext& context, std::span<const std::string> names)
      : prompt_(pick(context.dataset, {"prompt"}, {"prompt", "question"}, names)),
        answer_(
            pick(context.dataset, {"completion", "response"}, {"completion", "response", "answer"}, names)),
        train_prompt_(context.data.train_on_inputs),
        builder_(context.tokenizer(), context.vocab_size) {}

  Sample read(std::string_view row, const Place& at) const override {
    std::array fields{Field{prompt_}, Field{answer_}};
    read_fields(row, at, fields);
    Sample sample;
    builder_.add_prefix(sample, train_prompt_, at);
    builder_.add_text(sample, fields[0].text, train_prompt_, at);
    builder_.add_text(sample, fields[1].text, true, at);
    builder_.add_end(sample, true, at);
    return sample;
  }

 private:
  std::string prompt_, answer_;  // the fields' names in the file
  bool train_prompt_;
  TextSampleBuilder builder_;
};

}  // namespace

std::unique_ptr<Format> make_prompt_format(const FormatContext& context, std::span<const std::string> names) {
  return std::make_unique<PromptFormat>(context, names);
}

}  // namespace ft
