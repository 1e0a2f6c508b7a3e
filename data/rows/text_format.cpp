// Rows of plain text: the tokens that the tokenizer puts first, the text, EOS. All of it is trained.
#include <array>

#include "data/files/json_row.h"
#include "data/row_formats.h"
#include "data/rows/format.h"
#include "data/rows/text_sample.h"

namespace ft {
namespace {

class TextFormat : public Format {
 public:
  explicit TextFormat(const FormatContext& context)
      : text_(column(context.dataset, "text")),
        builder_(context.tokenizer(), context.vocab_size, context.seq2seq) {}

  Sample read(std::string_view row, const Place& at) const override {
    std::array fields{Field{text_}};
    read_fields(row, at, fields);
    Sample sample;
    builder_.add_prefix(sample, true, at);
    builder_.add_ended(sample, fields[0].text, true, at);
    sample.begins_twice = begins_twice(builder_.tokenizer(), sample.input_ids);
    return sample;
  }

 private:
  std::string text_;  // the field's name in the file
  TextSampleBuilder builder_;
};

}  // namespace

const RowFormat row_formats::kText{.name = "text",
                                   .columns = {"text"},
                                   .source_and_target = false,
                                   .fits = [](const RowNames& row) { return row.has("text"); },
                                   .make = make_as<TextFormat>};

}  // namespace ft
