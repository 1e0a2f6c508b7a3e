// Reads Stanford Alpaca's rows: instruction, input (may be missing or empty) and output. The prompt has
// Stanford's words (https://github.com/tatsu-lab/stanford_alpaca) or none (data.prompt_template: none).
#include <array>

#include "data/files/json_row.h"
#include "data/row_formats.h"
#include "data/rows/alpaca_rows.h"
#include "data/rows/format.h"
#include "data/rows/text_sample.h"
#include "engine/core/error.h"

namespace ft {

std::string alpaca_prompt(const std::string& instruction, const std::string& input) {
  const std::string request = "Write a response that appropriately completes the request.";
  const std::string task = "Below is an instruction that describes a task";
  if (input.empty())
    return str(task, ". ", request, "\n\n### Instruction:\n", instruction, "\n\n### Response:");
  return str(task, ", paired with an input that provides further context. ", request,
             "\n\n### Instruction:\n", instruction, "\n\n### Input:\n", input, "\n\n### Response:");
}

namespace {

class AlpacaRows : public Format {
 public:
  explicit AlpacaRows(const FormatContext& context)
      : instruction_(column(context.dataset, "instruction")),
        input_(column(context.dataset, "input")),
        output_(column(context.dataset, "output")),
        plain_(context.data.prompt_template == PromptTemplate::none),
        train_prompt_(context.data.train_on_inputs),
        builder_(context.tokenizer(), context.vocab_size, context.seq2seq) {}

  Sample read(std::string_view row, const Place& at) const override {
    std::array fields{Field{instruction_}, Field{input_, Field::Kind::text, false}, Field{output_}};
    read_fields(row, at, fields);
    const auto& [instruction, input, output] = fields;
    const std::string bare = instruction.text + (input.text.empty() ? "" : "\n" + input.text);
    Sample sample = builder_.prompt_and_answer(plain_ ? bare : alpaca_prompt(instruction.text, input.text),
                                               output.text, train_prompt_, at);
    if (!plain_ && sample.written == Written::plain) sample.written = Written::alpaca;
    return sample;
  }

 private:
  std::string instruction_, input_, output_;  // the columns' names in the file
  bool plain_, train_prompt_;
  TextSampleBuilder builder_;
};

}  // namespace

const RowFormat row_formats::kAlpaca{
    .name = "alpaca",
    .columns = {"instruction", "input", "output"},
    .fits = [](const RowNames& row) { return row.has("instruction") && row.has("output"); },
    .make = make_as<AlpacaRows>};

}  // namespace ft
