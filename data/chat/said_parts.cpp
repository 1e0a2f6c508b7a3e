#include "data/chat/said_parts.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "data/chat/trained_chat.h"
#include "data/files/utf8.h"
#include "engine/core/error.h"

namespace ft {
namespace {

using Kind = ChatPart::Kind;

[[noreturn]] void fail(std::size_t message) {
  throw std::invalid_argument(str(
      "message ", message + 1, ": \"train\" and \"weight\" of its parts have no effect, because the chat ",
      "template does not write their text once and in one piece; take them out, or the row"));
}

}  // namespace

SaidParts said_parts(const Json& message, const std::string& where, const Place& at) {
  const Json* content = message.is_object() ? member(message, "content") : nullptr;
  if (!content || !content->is_array()) return {};
  SaidParts parts;
  bool any = false;
  for (const Json& part : *content) {
    if (!part.is_object()) continue;
    const std::string own = str(where, ".content[", &part - &content->front(), "]");
    const auto said = said_trained(part, own, at);
    const Json* text = member(part, "text");
    parts.push_back({text && text->is_string() ? text->get<std::string>() : "", said});
    any |= said.has_value();
  }
  if (!any) return {};
  for (const Json& part : *content)
    if (!part.is_object() || !member(part, "text") || !member(part, "text")->is_string())
      at.fail(str(where,
                  ".content: has \"train\" or \"weight\" at a part, so that all must be texts, but one "
                  "is ",
                  json_excerpt(part)));
  return parts;
}

std::string joined_text(const SaidParts& parts) {
  std::string text;
  for (const SaidPart& part : parts) text += part.text;
  return text;
}

std::vector<LeftOut> kept_out_by_parts(std::span<const ChatPart> written, std::size_t message,
                                       const SaidParts& parts, bool usual, bool ends) {
  const std::string whole = joined_text(parts);
  const std::string_view content = strip_right(strip_left(whole));
  const auto skipped = static_cast<std::size_t>(strip_left(whole).data() - whole.data());
  std::vector<LeftOut> out;
  const auto keep_out = [&](std::size_t begin, std::size_t end, bool trained) {
    if (trained || end <= begin) return;
    if (!out.empty() && out.back().end == begin)
      out.back().end = end;
    else
      out.push_back({begin, end});
  };
  const bool last = parts.back().trained.value_or(usual);
  std::size_t begin = 0;
  bool found = false;
  for (const ChatPart& part : written) {
    const std::size_t end = begin + part.text.size();
    if (part.message == static_cast<std::int64_t>(message) && part.kind == Kind::end) {
      if (ends) keep_out(begin, end, last);
    } else if (part.message == static_cast<std::int64_t>(message) && part.kind != Kind::frame) {
      const auto at = content.empty() ? std::string::npos : part.text.find(content);
      if (at == std::string::npos) {
        keep_out(begin, end, found ? last : usual);
        begin = end;
        continue;
      }
      if (found || part.text.rfind(content) != at) fail(message);
      found = true;
      keep_out(begin, begin + at, usual);
      // Positions of the content in the conversation's text; white space around the content may be cut.
      std::size_t from = 0;
      for (const SaidPart& said : parts) {
        const std::size_t to = from + said.text.size();
        const auto place = [&](std::size_t in) {
          return begin + at + std::clamp(in, skipped, skipped + content.size()) - skipped;
        };
        keep_out(place(from), place(to), said.trained.value_or(usual));
        from = to;
      }
      keep_out(begin + at + content.size(), end, last);
    }
    begin = end;
  }
  if (!found) fail(message);
  return out;
}

}  // namespace ft
