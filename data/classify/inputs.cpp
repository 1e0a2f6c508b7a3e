#include "data/classify/inputs.h"

#include <nlohmann/json.hpp>

#include "data/preference/answers.h"
#include "data/tokenizers/token_spans.h"
#include "engine/core/error.h"

namespace ft {

TextInputs::TextInputs(const FormatContext& context)
    : context_(context),
      text_(column(context.dataset, "text")),
      text_pair_(column(context.dataset, "text_pair")),
      input_ids_(column(context.dataset, "input_ids")),
      tokens_(column(context.dataset, "tokens")) {}

bool TextInputs::has_words(const Json& row) const { return row.contains(tokens_); }
bool TextInputs::has_ids(const Json& row) const { return row.contains(input_ids_); }

std::vector<std::int32_t> TextInputs::read(const Json& row, const Place& at) const {
  if (has_ids(row)) return ids(row, input_ids_, at);
  std::vector<std::int32_t> all = text(string_of(row, text_, at), at);
  if (const auto pair = row.find(text_pair_); pair != row.end() && !pair->is_null())
    for (const std::int32_t id : text(string_of(row, text_pair_, at), at)) all.push_back(id);
  return all;
}

const std::string& TextInputs::string_of(const Json& row, const std::string& field, const Place& at) const {
  const auto found = row.find(field);
  if (found == row.end() || found->is_null()) at.fail(str("no \"", printable(field), "\""));
  if (!found->is_string()) at.fail(str(printable(field), ": must be a text, is ", json_excerpt(*found)));
  return found->get_ref<const std::string&>();
}

std::vector<std::int32_t> TextInputs::text(const std::string& text, const Place& at) const {
  std::vector<std::int32_t> all = context_.tokenizer().encode_with_specials(text);
  if (all.empty()) at.fail("a text without tokens: it is empty");
  check(all, at);
  return all;
}

std::vector<std::int32_t> TextInputs::ids(const Json& row, const std::string& field, const Place& at) const {
  const auto found = row.find(field);
  if (found == row.end() || found->is_null()) at.fail(str("no \"", printable(field), "\""));
  if (!found->is_array() || found->empty())
    at.fail(str(printable(field), ": must be a list of ids, is ", json_excerpt(*found)));
  std::vector<std::int32_t> all;
  for (const Json& id : *found) {
    if (!id.is_number_integer() || id < 0 || id >= context_.vocab_size)
      at.fail(str(printable(field), "[", all.size(), "] is ", json_excerpt(id),
                  "; the model's tokens are 0 to ", context_.vocab_size - 1));
    all.push_back(id.get<std::int32_t>());
  }
  return all;
}

TextInputs::Words TextInputs::words(const Json& row, const Place& at) const {
  const Json& list = row.at(tokens_);
  if (!list.is_array() || list.empty())
    at.fail(str(printable(tokens_), ": must be a list of words, is ", json_excerpt(list)));
  std::string text;
  std::vector<std::size_t> begins;
  for (const Json& word : list) {
    if (!word.is_string() || word.get_ref<const std::string&>().empty())
      at.fail(str(printable(tokens_), "[", begins.size(), "]: must be a word, is ", json_excerpt(word)));
    if (!text.empty()) text += ' ';
    begins.push_back(text.size());
    text += word.get_ref<const std::string&>();
  }
  const Tokenizer& tokenizer = context_.tokenizer();
  const std::vector<std::int32_t> own = tokenizer.encode(text);
  const auto spans = token_spans(tokenizer, own, text);
  if (!spans)
    at.fail(
        "the tokenizer changes the text, so that its tokens cannot be given to words; give input_ids and "
        "labels");
  Words all{.ids = tokenizer.prefix(), .first = {}};
  std::size_t token = 0;
  for (const std::size_t begin : begins) {
    while (token + 1 < spans->size() && (*spans)[token].second <= begin) ++token;
    all.first.push_back(all.ids.size() + token);
  }
  all.ids.insert(all.ids.end(), own.begin(), own.end());
  for (const std::int32_t id : tokenizer.suffix()) all.ids.push_back(id);
  check(all.ids, at);
  return all;
}

void TextInputs::check(const std::vector<std::int32_t>& ids, const Place& at) const {
  require_known(ids, context_.vocab_size, context_.tokenizer(), at);
}

}  // namespace ft
