// Texts without a template, as axolotl's input_output: {"segments": [{"label": false, "text": "<s>Ada has"},
// {"label": true, "text": " Ada</s>"}]}. Each segment is tokenized separately, nothing is added, and segments
// with a true label are trained.
#include <nlohmann/json.hpp>

#include "data/files/json_row.h"
#include "data/row_formats.h"
#include "data/rows/format.h"
#include "data/rows/text_sample.h"
#include "engine/core/error.h"

namespace ft {
namespace {

class SegmentsFormat : public Format {
 public:
  explicit SegmentsFormat(const FormatContext& context)
      : segments_(column(context.dataset, "segments")),
        all_(context.data.train_on_inputs),
        builder_(context.tokenizer(), context.vocab_size) {}

  Sample read(std::string_view row, const Place& at) const override {
    const Json tree = read_row(row, at);
    if (!tree.contains(segments_) || !tree[segments_].is_array() || tree[segments_].empty())
      at.fail(str("no \"", printable(segments_), "\" that is a list of objects with text and label"));
    Sample sample;
    for (const Json& segment : tree[segments_]) {
      const auto number = &segment - &tree[segments_].front();
      if (!segment.is_object() || !segment.contains("text") || !segment["text"].is_string())
        at.fail(str(printable(segments_), "[", number, "]: no text in \"text\""));
      if (!segment.contains("label") || !segment["label"].is_boolean())
        at.fail(str(printable(segments_), "[", number, "]: label must be true or false"));
      builder_.add_text(sample, segment["text"].get<std::string>(), all_ || segment["label"].get<bool>(), at);
    }
    if (sample.input_ids.empty()) at.fail(str(printable(segments_), ": the texts have no token"));
    sample.begins_twice = begins_twice(builder_.tokenizer(), sample.input_ids);
    return sample;
  }

 private:
  std::string segments_;  // the field's name in the file
  bool all_;              // all segments are trained
  TextSampleBuilder builder_;
};

}  // namespace

const RowFormat row_formats::kSegments{.name = "input_output",
                                       .columns = {"segments"},
                                       .source_and_target = false,
                                       .fits = [](const RowNames& row) { return row.has("segments"); },
                                       .make = make_as<SegmentsFormat>};

}  // namespace ft
