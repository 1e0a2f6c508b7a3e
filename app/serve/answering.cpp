#include "app/serve/answering.h"

namespace ft {
namespace {

constexpr std::chrono::milliseconds kLook{200};  // between two looks at whether the client is there

}  // namespace

std::string Answering::finish(const Desk::News& n) {
  using enum Question::State;
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  const std::string word = n.state == stopped ? "stop" : n.state == at_length ? "length" : "";
  on_done_(word.empty() ? "failed" : word, {prompt_tokens_, n.tokens}, seconds);
  if (n.state == failed) throw ApiError(500, n.error);
  if (word.empty()) throw ApiError(503, "the server is shutting down");
  return word;
}

std::string Answering::whole(const std::function<bool()>& gone) {
  std::string text;
  for (;;) {
    const Desk::News n = desk_.wait(*question_, kLook);
    text += n.text;
    if (n.over()) {
      const std::string word = finish(n);
      return whole_reply(frame_, text, word, {prompt_tokens_, n.tokens});
    }
    if (n.text.empty() && gone()) throw ApiError(499, "the client has gone");
  }
}

std::optional<std::string> Answering::next(const std::function<bool()>& gone, bool usage_at_end) {
  if (stage_ == Stage::over) return std::nullopt;
  if (stage_ == Stage::first) {
    stage_ = Stage::text;
    if (std::string event = first_event(frame_); !event.empty()) return event;
  }
  for (;;) {
    const Desk::News n = desk_.wait(*question_, kLook);
    if (!n.over()) {
      if (!n.text.empty()) return text_event(frame_, n.text);
      if (gone()) return stage_ = Stage::over, std::nullopt;
      continue;
    }
    stage_ = Stage::over;
    std::string out = n.text.empty() ? "" : text_event(frame_, n.text);
    try {
      out += text_event(frame_, "", finish(n));
    } catch (const ApiError& e) {
      return out + error_event(e);
    }
    if (usage_at_end) out += usage_event(frame_, {prompt_tokens_, n.tokens});
    return out + kLastEvent;
  }
}

}  // namespace ft
