#include "data/tokenizers/json/added_tokens.h"

#include <algorithm>

#include "data/files/utf8.h"
#include "data/tokenizers/unicode.h"
#include "engine/core/error.h"

namespace ft {
namespace {

bool starts_with_word(std::string_view text) {
  return !text.empty() && is_word_character(utf8_code_point(text, 0));
}

bool ends_with_word(std::string_view text) {
  std::size_t last = text.size();
  while (last > 0 && (static_cast<unsigned char>(text[--last]) & 0xC0) == 0x80) {
  }
  return starts_with_word(text.substr(last));
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::stable_sort(tokens_.begin(), tokens_.end(), [](const AddedToken& a, const AddedToken& b) {
    return a.content.size() > b.content.size();
  });
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    const AddedToken& t = tokens_[i];
    require(t.id.has_value() && !t.content.empty(), "an added token without an id");
    by_first_byte_[static_cast<unsigned char>(t.content[0])].push_back(i);
    if (const auto [at, fresh] = by_id_.try_emplace(*t.id, i); !fresh)
      throw UserError(Exit::input, str("the tokenizer's added tokens ", printable(t.content), " and ",
                                       printable(tokens_[at->second].content), " are both ", *t.id));
  }
}

const AddedToken* AddedTokens::match(std::string_view text, std::size_t at) const {
  for (const std::size_t i : by_first_byte_[static_cast<unsigned char>(text[at])])
    if (text.substr(at).starts_with(tokens_[i].content)) return &tokens_[i];
  return nullptr;
}

std::vector<AddedTokens::Part> AddedTokens::split(std::string_view text) const {
  std::vector<Part> parts;
  std::size_t begin = 0;  // the end of the last part
  for (std::size_t at = 0; at < text.size();) {
    const AddedToken* token = match(text, at);
    const std::size_t end = token ? at + token->content.size() : at + 1;
    const bool in_word = token && token->single_word &&
                         (ends_with_word(text.substr(0, at)) || starts_with_word(text.substr(end)));
    const bool swallowed =
        token && token->lstrip && end <= begin;  // this white space belongs to the last token already
    if (token && !in_word && !swallowed) {
      // White space after the last token may reach beyond the beginning of this one.
      std::string_view before = text.substr(begin, at > begin ? at - begin : 0);
      if (token->lstrip) before = strip_right(before);
      if (!before.empty()) parts.push_back({before});
      parts.push_back({text.substr(at, token->content.size()), *token->id});
      begin = token->rstrip ? text.size() - strip_left(text.substr(end)).size() : end;
    }
    at = end;
  }
  if (begin < text.size()) parts.push_back({text.substr(begin)});
  return parts;
}

const AddedToken* AddedTokens::find(std::int32_t id) const {
  const auto it = by_id_.find(id);
  return it == by_id_.end() ? nullptr : &tokens_[it->second];
}

const AddedToken* AddedTokens::find(std::string_view content) const {
  if (content.empty()) return nullptr;
  for (const std::size_t i : by_first_byte_[static_cast<unsigned char>(content[0])])
    if (tokens_[i].content == content) return &tokens_[i];
  return nullptr;
}

std::int32_t AddedTokens::largest_id() const {
  std::int32_t most = -1;
  for (const AddedToken& t : tokens_) most = std::max(most, *t.id);
  return most;
}

}  // namespace ft
