// Rows of texts that belong together, with sentence-transformers' names: anchor, positive and, if there are
// any, negative, a text or a list of texts. Or their tokens: anchor_ids, positive_ids, negative_ids.
#include <nlohmann/json.hpp>

#include "data/classify/inputs.h"
#include "data/files/json_row.h"
#include "data/row_formats.h"
#include "data/rows/format.h"
#include "engine/core/error.h"

namespace ft {
namespace {

class ContrastRows : public Format {
 public:
  ContrastRows(const FormatContext& context, bool tokenized)
      : inputs_(context),
        tokenized_(tokenized),
        anchor_(column(context.dataset, tokenized ? "anchor_ids" : "anchor")),
        positive_(column(context.dataset, tokenized ? "positive_ids" : "positive")),
        negative_(column(context.dataset, tokenized ? "negative_ids" : "negative")) {}

  Sample read(std::string_view text, const Place& at) const override {
    const Json row = read_row(text, at);
    Sample s;
    std::int32_t number = 0;
    const auto add = [&](const Json& of, const std::string& name) {
      const std::vector<std::int32_t> ids = tokens(of, name, at);
      s.input_ids.insert(s.input_ids.end(), ids.begin(), ids.end());
      s.labels.insert(s.labels.end(), ids.size(), number++);
    };
    for (const std::string& name : {anchor_, positive_}) {
      if (!row.contains(name) || row[name].is_null()) at.fail(str("no \"", printable(name), "\""));
      add(row[name], name);
    }
    const auto negative = row.find(negative_);
    if (negative == row.end() || negative->is_null()) return s;
    const bool several =
        negative->is_array() && (!tokenized_ || negative->empty() || negative->front().is_array());
    if (!several) add(*negative, negative_);
    for (std::size_t i = 0; several && i < negative->size(); ++i)
      add((*negative)[i], str(negative_, "[", i, "]"));
    return s;
  }

 private:
  std::vector<std::int32_t> tokens(const Json& of, const std::string& name, const Place& at) const {
    if (tokenized_) return inputs_.ids(Json{{name, of}}, name, at);
    if (!of.is_string()) at.fail(str(printable(name), ": must be a text, is ", json_excerpt(of)));
    return inputs_.text(of.get<std::string>(), at);
  }

  TextInputs inputs_;
  bool tokenized_;
  std::string anchor_, positive_, negative_;  // the columns' names in the file
};

std::unique_ptr<Format> make_texts(const FormatContext& context, std::span<const std::string>) {
  return std::make_unique<ContrastRows>(context, false);
}

std::unique_ptr<Format> make_tokenized(const FormatContext& context, std::span<const std::string>) {
  return std::make_unique<ContrastRows>(context, true);
}

}  // namespace

const RowFormat row_formats::kContrast{
    .name = "contrast",
    .kind = RowKind::texts,
    .columns = {"anchor", "positive", "negative"},
    .source_and_target = false,
    .fits = [](const RowNames& row) { return row.has("anchor") && row.has("positive"); },
    .make = make_texts};
const RowFormat row_formats::kContrastTokenized{
    .name = "contrast_tokenized",
    .kind = RowKind::texts,
    .columns = {"anchor_ids", "positive_ids", "negative_ids"},
    .source_and_target = false,
    .fits = [](const RowNames& row) { return row.has("anchor_ids") && row.has("positive_ids"); },
    .make = make_tokenized};

}  // namespace ft
