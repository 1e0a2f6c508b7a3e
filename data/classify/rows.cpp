// Rows with labels of a classification: text (perhaps with text_pair) and label; input_ids and label; or, if
// each token has a class, tokens (words) and ner_tags, or input_ids and labels.
#include <nlohmann/json.hpp>

#include "data/classify/inputs.h"
#include "data/classify/labels.h"
#include "data/files/json_row.h"
#include "data/row_formats.h"
#include "data/rows/format.h"
#include "engine/core/error.h"

namespace ft {
namespace {

class ClassifiedRows : public Format {
 public:
  explicit ClassifiedRows(const FormatContext& context)
      : inputs_(context),
        labels_(context.rows.labels),
        of_tokens_(context.rows.labels.of_tokens),
        label_(column(context.dataset, "label")),
        token_labels_(column(context.dataset, "labels")),
        tags_(column(context.dataset, "ner_tags")) {}

  Sample read(std::string_view text, const Place& at) const override {
    const Json row = read_row(text, at);
    if (of_tokens_) return inputs_.has_words(row) ? words(row, at) : tokens(row, at);
    Sample s{.input_ids = inputs_.read(row, at), .labels = {}};
    s.labels = s.input_ids;
    s.classes = labels_.text(field(row, label_, at), label_, at);
    return s;
  }

 private:
  static const Json& field(const Json& row, const std::string& name, const Place& at) {
    const auto found = row.find(name);
    if (found == row.end() || found->is_null()) at.fail(str("no \"", printable(name), "\""));
    return *found;
  }

  // Reads a list that must have `n` elements.
  static const Json& list(const Json& row, const std::string& name, std::size_t n, const char* things,
                          const Place& at) {
    const Json& all = field(row, name, at);
    if (!all.is_array() || all.size() != n)
      at.fail(str(printable(name), ": must be a list of ", n, " classes, one for each of the ", things,
                  ", is ", json_excerpt(all)));
    return all;
  }

  Sample tokens(const Json& row, const Place& at) const {
    Sample s{.input_ids = inputs_.read(row, at), .labels = {}};
    const Json& all = list(row, token_labels_, s.input_ids.size(), "tokens", at);
    for (const Json& label : all)
      s.labels.push_back(labels_.token(label, str(token_labels_, "[", s.labels.size(), "]"), at));
    return s;
  }

  // A word's first token gets its class, as in transformers' run_ner.py; its other tokens get none.
  Sample words(const Json& row, const Place& at) const {
    TextInputs::Words read = inputs_.words(row, at);
    const std::string& name = row.contains(tags_) ? tags_ : token_labels_;
    const Json& all = list(row, name, read.first.size(), "words", at);
    Sample s{.input_ids = std::move(read.ids), .labels = {}};
    s.labels.assign(s.input_ids.size(), kIgnored);
    for (std::size_t i = 0; i < read.first.size(); ++i) {
      std::int32_t& label = s.labels[read.first[i]];
      if (label == kIgnored) label = labels_.token(all[i], str(name, "[", i, "]"), at);
    }
    return s;
  }

  TextInputs inputs_;
  LabelReader labels_;
  bool of_tokens_;
  std::string label_, token_labels_, tags_;  // the columns' names in the file
};

}  // namespace

const RowFormat row_formats::kTextClasses{.name = "text",
                                          .kind = RowKind::classified,
                                          .columns = {"text", "text_pair", "label"},
                                          .source_and_target = false,
                                          .make = make_as<ClassifiedRows>};
const RowFormat row_formats::kTokenizedClasses{.name = "tokenized",
                                               .kind = RowKind::classified,
                                               .columns = {"input_ids", "label", "labels"},
                                               .source_and_target = false,
                                               .make = make_as<ClassifiedRows>};
const RowFormat row_formats::kTokenLabels{
    .name = "token_labels",
    .kind = RowKind::classified,
    .columns = {"tokens", "ner_tags", "labels"},
    .source_and_target = false,
    .fits = [](const RowNames& row) { return row.wanted(RowKind::classified) && row.has("tokens"); },
    .make = make_as<ClassifiedRows>};

}  // namespace ft
