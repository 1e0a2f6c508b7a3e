#include "data/chat/reasoning.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>

#include "data/chat/trained_chat.h"
#include "data/files/utf8.h"
#include "engine/core/error.h"

namespace ft {
namespace {

constexpr const char* kKeys[] = {"reasoning_content", "thinking"};
constexpr std::string_view kOpen = "<think>", kClose = "</think>";

std::string_view without_feeds(std::string_view text) {
  const auto first = text.find_first_not_of('\n');
  if (first == text.npos) return "";
  return text.substr(first, text.find_last_not_of('\n') - first + 1);
}

// A content that begins with a thought.
struct Thoughtful {
  std::string thought, answer;
};

std::optional<Thoughtful> parted(std::string_view content) {
  const auto end = content.find(kClose);
  if (end == content.npos) return std::nullopt;
  std::string_view thought = content.substr(0, end);
  if (const auto open = thought.find(kOpen); open != thought.npos) {
    if (!strip_left(thought).starts_with(kOpen)) return std::nullopt;  // a word of the answer
    thought.remove_prefix(open + kOpen.size());
  }
  std::string_view answer = content.substr(end + kClose.size());
  answer.remove_prefix(std::min(answer.find_first_not_of('\n'), answer.size()));
  return Thoughtful{std::string(without_feeds(thought)), std::string(answer)};
}

// Returns the content as one text, "" if there is none; nullopt if a part of it is not text.
std::optional<std::string> text_in(const Json& message) {
  const Json* content = member(message, "content");
  if (!content) return "";
  if (content->is_string()) return content->get<std::string>();
  if (!content->is_array()) return std::nullopt;
  std::string text;
  for (const Json& part : *content) {
    const Json* words = part.is_object() ? member(part, "text") : nullptr;
    if (!words || !words->is_string()) return std::nullopt;
    text += words->get<std::string>();
  }
  return text;
}

class Arranged {
 public:
  Arranged(Json& message, std::size_t number) : message_(message), number_(number) {
    for (const char* key : kKeys) {
      const Json* value = member(message, key);
      if (!value) continue;
      if (!value->is_string()) fail(str(key, ": must be a text, is ", json_excerpt(*value)));
      const std::string_view thought = without_feeds(value->get_ref<const std::string&>());
      if (thought.empty() || thought == thought_) continue;
      if (!thought_.empty()) fail("has two different thoughts, in reasoning_content and in thinking");
      thought_ = thought;
    }
    content_ = text_in(message);
    if (content_) within_ = parted(*content_);
  }

  void to_key(const std::string& key) {
    const std::string thought = only();
    if (thought.empty() && !within_) return;
    if (within_) message_["content"] = within_->answer;
    erase_keys();
    if (!thought.empty()) message_[key] = thought;
  }

  void into_content() {
    if (thought_.empty()) return erase_keys();
    if (within_) only();
    if (!content_) fail("its content is not text, so that no thought can be written into it");
    std::string_view answer = within_ ? within_->answer : *content_;
    answer.remove_prefix(std::min(answer.find_first_not_of('\n'), answer.size()));
    message_["content"] = str(kOpen, "\n", thought_, "\n", kClose, "\n\n", answer);
    erase_keys();
  }

  void drop() {
    if (within_) message_["content"] = within_->answer;
    erase_keys();
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw std::invalid_argument(str("message ", number_, ": ", what, " (data.reasoning_content)"));
  }

  // Returns the message's thought, which is in its content or in a key.
  const std::string& only() const {
    if (!within_ || within_->thought.empty()) return thought_;
    if (!thought_.empty() && thought_ != within_->thought)
      fail("has a thought in its content and another in a key of its own");
    return within_->thought;
  }

  void erase_keys() {
    for (const char* key : kKeys) message_.erase(key);
  }

  Json& message_;
  std::size_t number_;
  std::string thought_;                 // in a key, without line feeds around it
  std::optional<std::string> content_;  // empty: not text
  std::optional<Thoughtful> within_;    // a content that begins with a thought
};

}  // namespace

std::string reasoning_key_of(std::string_view jinja) {
  const auto has = [&](const char* sign) { return jinja.find(sign) != jinja.npos; };
  if (has("reasoning_content")) return kKeys[0];
  for (const char* sign : {"message.thinking", "'thinking'", "\"thinking\""})
    if (has(sign)) return kKeys[1];
  return "";
}

void arrange_reasoning(std::vector<Json>& messages, ReasoningContent rule, const std::string& key) {
  if (rule == ReasoningContent::split && key.empty())
    throw std::invalid_argument(
        "data.reasoning_content is split, but the chat template reads neither reasoning_content nor "
        "thinking, "
        "so that thoughts would be lost; leave it out, or set it to drop");
  std::size_t end = messages.size();  // of the messages to look at
  if (rule == ReasoningContent::drop_history)
    while (end > 0 && messages[end - 1].at("role") != "user") --end;
  for (std::size_t i = 0; i < end; ++i) {
    if (messages[i].at("role") != "assistant") continue;
    Arranged message(messages[i], i + 1);
    if (rule == ReasoningContent::split)
      message.to_key(key);
    else if (rule == ReasoningContent::into_content)
      message.into_content();
    else
      message.drop();
  }
}

}  // namespace ft
