#include "data/tokenizers/json/token_model.h"

#include <array>

#include "engine/core/error.h"

namespace ft {
namespace {}  // namespace

Vocabulary::Vocabulary(std::vector<std::pair<std::string, std::int64_t>> entries, const std::string& where) {
  const auto fail = [&](const auto&... what) { throw UserError(Exit::input, str(where, ": ", what...)); };
  std::int64_t end = 0;
  for (const auto& [text, id] : entries) {
    if (id < 0 || id >= kEndOfIds) fail("the token ", printable(text, 40), " has the id ", id);
    end = std::max(end, id + 1);
  }
  texts_.resize(static_cast<std::size_t>(end));
  ids_.reserve(entries.size());
  count_ = static_cast<std::int64_t>(entries.size());
  for (auto& [text, id] : entries) {
    auto& slot = texts_[static_cast<std::size_t>(id)];
    if (slot)
      fail("the tokens ", printable(*slot, 40), " and ", printable(text, 40), " both have the id ", id);
    slot = std::move(text);
    ids_.insert_or_assign(*slot, static_cast<std::int32_t>(id));
  }
}

std::optional<std::int32_t> Vocabulary::id(std::string_view text) const {
  const auto it = ids_.find(text);
  return it == ids_.end() ? std::nullopt : std::optional(it->second);
}

const std::string* Vocabulary::text(std::int32_t id) const {
  if (id < 0 || id >= end()) return nullptr;
  const auto& slot = texts_[static_cast<std::size_t>(id)];
  return slot ? &*slot : nullptr;
}

std::string byte_token(unsigned char byte) {
  static constexpr std::string_view kHex = "0123456789ABCDEF";
  return str("<0x", kHex[byte >> 4], kHex[byte & 15], ">");
}

}  // namespace ft
