// Reads pairs of languages: {"translation": {"en": "...", "ro": "..."}}. The prompt is the dataset's
// source_prefix and the text of source_lang; the answer is the text of target_lang.
#include <nlohmann/json.hpp>

#include "data/files/json_row.h"
#include "data/row_formats.h"
#include "data/rows/format.h"
#include "data/rows/text_sample.h"
#include "engine/core/error.h"

namespace ft {
namespace {

class TranslationRows : public Format {
 public:
  explicit TranslationRows(const FormatContext& context)
      : pair_(column(context.dataset, "translation")),
        prefix_(context.dataset.source_prefix.value_or("")),
        train_prompt_(context.data.train_on_inputs),
        builder_(context.tokenizer(), context.vocab_size, context.seq2seq) {
    for (const auto* lang : {&context.dataset.source_lang, &context.dataset.target_lang})
      if (!*lang)
        throw UserError(Exit::config,
                        str(context.setting,
                            ": type translation needs source_lang and target_lang, such as \"en\" "
                            "and \"ro\""));
    source_ = *context.dataset.source_lang;
    target_ = *context.dataset.target_lang;
  }

  Sample read(std::string_view row, const Place& at) const override {
    const Json tree = read_row(row, at);
    if (!tree.contains(pair_) || !tree[pair_].is_object())
      at.fail(str("no \"", printable(pair_), "\" that is an object of languages and texts"));
    return builder_.prompt_and_answer(prefix_ + text_of(tree[pair_], source_, at),
                                      text_of(tree[pair_], target_, at), train_prompt_, at);
  }

 private:
  std::string text_of(const Json& pair, const std::string& lang, const Place& at) const {
    if (!pair.contains(lang) || !pair[lang].is_string())
      at.fail(str(printable(pair_), ": no text in \"", printable(lang), "\""));
    return pair[lang].get<std::string>();
  }

  std::string pair_, prefix_, source_, target_;
  bool train_prompt_;
  TextSampleBuilder builder_;
};

}  // namespace

const RowFormat row_formats::kTranslation{.name = "translation",
                                          .columns = {"translation"},
                                          .fits = [](const RowNames& row) { return row.has("translation"); },
                                          .make = make_as<TranslationRows>};

}  // namespace ft
