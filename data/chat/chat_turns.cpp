#include "data/chat/chat_turns.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "data/chat/reasoning.h"
#include "data/files/utf8.h"
#include "data/tokenizers/token_spans.h"
#include "engine/core/error.h"

namespace ft {
namespace {

using Kind = ChatPart::Kind;

std::vector<std::string> special_tokens_of(const Tokenizer& tokenizer) {
  std::vector<std::string> out;
  for (std::int64_t id = 0; id < tokenizer.size(); ++id)
    if (const auto i = static_cast<std::int32_t>(id); tokenizer.is_special(i))
      out.push_back(tokenizer.token(i));
  if (const auto eos = tokenizer.eos()) out.push_back(tokenizer.token(*eos));
  std::erase(out, "");
  return out;
}

std::string joined(std::span<const ChatPart> parts) {
  std::string text;
  for (const ChatPart& part : parts) text += part.text;
  return text;
}

// Cuts a text into consecutive parts.
class Cutter {
 public:
  explicit Cutter(const std::string& text) : text_(text) {}
  std::size_t done() const { return done_; }
  void cut(std::size_t begin, std::size_t end, Kind kind, std::int64_t message, bool closes = false) {
    begin = std::max(begin, done_);
    if (end <= begin) return;
    if (begin > done_) parts_.push_back({Kind::frame, text_.substr(done_, begin - done_)});
    parts_.push_back({kind, text_.substr(begin, end - begin), message, closes});
    done_ = end;
  }
  std::vector<ChatPart> finish() {
    cut(done_, text_.size(), Kind::frame, -1);
    return std::move(parts_);
  }

 private:
  const std::string& text_;
  std::size_t done_ = 0;
  std::vector<ChatPart> parts_;
};

// Returns a message's content without surrounding white space, if it is a text, else "".
std::string_view content_of(const Json& message) {
  const auto it = message.find("content");
  return it != message.end() && it->is_string() ? strip_right(strip_left(it->get_ref<const std::string&>()))
                                                : "";
}

}  // namespace

std::optional<std::vector<ChatMessage>> plain_messages(const std::vector<Json>& messages) {
  std::vector<ChatMessage> out;
  for (const Json& m : messages) {
    const auto role = m.find("role"), content = m.find("content"), calls = m.find("tool_calls");
    if (role == m.end() || content == m.end() || !role->is_string() || !content->is_string())
      return std::nullopt;
    if (calls != m.end() && !calls->empty()) return std::nullopt;
    out.push_back({role->get<std::string>(), content->get<std::string>()});
  }
  return out;
}

// A conversation with its template; renders its first messages.
class TurnWriter::Rendered {
 public:
  Rendered(const TurnWriter& writer, const ChatTurns& turns) : writer_(writer) {
    const Json& kwargs = turns.with.kwargs;
    for (const auto& special : writer.specials_)
      if (!kwargs.contains(special.first)) variables_.push_back(special);
    try {
      for (const Json& m : turns.messages) messages_.push_back(jinja::Value::of(m));
      variables_.emplace_back("tools", jinja::Value::of(turns.with.tools));
      variables_.emplace_back("documents", jinja::Value::of(turns.with.documents));
      for (const auto& [name, value] : kwargs.items()) variables_.emplace_back(name, jinja::Value::of(value));
    } catch (const UserError& wrong) {
      throw std::invalid_argument(wrong.what());
    }
    const auto size = static_cast<std::int64_t>(turns.bytes);
    limits_.steps += 100 * size;
    limits_.bytes += 8 * size;
  }

  jinja::Rendering beginning(std::size_t count, bool prompt) const {
    jinja::List list{{messages_.begin(), messages_.begin() + static_cast<std::ptrdiff_t>(count)}};
    for (const jinja::Value& m : list.items) list.depth = std::max(list.depth, 1 + m.depth());
    jinja::Template::Variables variables = variables_;
    variables.emplace_back("messages",
                           jinja::Value::Any(std::make_shared<const jinja::List>(std::move(list))));
    variables.emplace_back("add_generation_prompt", jinja::Value::Any(prompt));
    try {
      return writer_.template_.render(variables, writer_.now_, limits_);
    } catch (const jinja::Error& wrong) {
      throw std::invalid_argument(str("chat_template line ", wrong.line, ": ", printable(wrong.what())));
    }
  }
  // Returns the same text, or nullopt if the template refuses these first messages.
  std::optional<std::string> text(std::size_t count, bool prompt) const {
    try {
      return beginning(count, prompt).text;
    } catch (const std::invalid_argument&) {
      return std::nullopt;
    }
  }
  // Counts the {% generation %} blocks of the first messages; nullopt if they are not the first blocks of
  // `whole`.
  std::optional<std::size_t> blocks(std::size_t count, const jinja::Rendering& whole) const {
    try {
      const jinja::Rendering part = beginning(count, false);
      const bool same = part.generated.size() <= whole.generated.size() &&
                        whole.text.starts_with(part.text) &&
                        std::equal(part.generated.begin(), part.generated.end(), whole.generated.begin());
      return same ? std::optional(part.generated.size()) : std::nullopt;
    } catch (const std::invalid_argument&) {
      return std::nullopt;
    }
  }
  std::size_t size() const { return messages_.size(); }

 private:
  const TurnWriter& writer_;
  std::vector<jinja::Value> messages_;
  jinja::Template::Variables variables_;
  jinja::Limits limits_;
};

TurnWriter::TurnWriter(const std::string& jinja, std::optional<ChatFormat> format, const Tokenizer& tokenizer,
                       const jinja::Template::Variables& specials)
    : template_(jinja),
      format_(format),
      tokenizer_(tokenizer),
      specials_(specials),
      special_tokens_(special_tokens_of(tokenizer)),
      reasoning_key_(reasoning_key_of(jinja)) {}

namespace {

// Finds the special token that ends text[begin, end), not counting white space after it. Returns the token's
// beginning and end; both are `end` if there is none.
std::pair<std::size_t, std::size_t> ending(std::string_view text, std::size_t begin, std::size_t end,
                                           const std::vector<std::string>& specials) {
  const std::string_view turn = strip_right(text.substr(begin, end - begin));
  std::size_t longest = 0;
  for (const std::string& s : specials)
    if (turn.ends_with(s)) longest = std::max(longest, s.size());
  if (longest == 0) return {end, end};
  return {begin + turn.size() - longest, begin + turn.size()};
}

bool is_answer(const Json& message) { return message.at("role") == "assistant"; }

// A message's part of the text; `end` is `begin` if it was not found.
struct Found {
  std::size_t begin = 0, end = 0;
  bool opened = true;  // begins with the text that opens an answer
};

// Returns the number of bytes in the text's first tokens that it shares with `opening`.
std::size_t shared_bytes(const Tokenizer& tokenizer, const std::string& opening, const std::string& text) {
  const Tokenizer::Ids ids = tokenizer.encode(text), own = tokenizer.encode(opening);
  const auto shared = std::ranges::mismatch(own, ids).in1 - own.begin();
  if (const auto spans = token_spans(tokenizer, ids, text))
    return shared == 0 ? 0 : (*spans)[static_cast<std::size_t>(shared) - 1].second;
  return static_cast<std::size_t>(std::ranges::mismatch(opening, text).in1 - opening.begin());
}

Found find_message(const auto& rendered, const Tokenizer& tokenizer, const std::string& text, std::size_t i,
                   bool answer) {
  const auto before = i == 0 && !answer ? std::optional<std::string>("") : rendered.text(i, answer);
  const auto until = i + 1 == rendered.size() ? text : rendered.text(i + 1, false);
  if (!before || !until || !text.starts_with(*until)) return {};
  if (until->starts_with(*before)) return {before->size(), until->size()};
  const auto closed = i == 0 ? std::optional<std::string>("") : rendered.text(i, false);
  if (!answer || !closed || !until->starts_with(*closed)) return {};
  return {std::max(closed->size(), shared_bytes(tokenizer, *before, *until)), until->size(), false};
}

// Counts the {% generation %} blocks before each message and before the end; nullopt if the numbers cannot be
// found.
std::optional<std::vector<std::size_t>> blocks_before(const auto& rendered, const ChatTurns& turns,
                                                      const jinja::Rendering& whole) {
  std::vector<std::size_t> counts{0};
  for (std::size_t i = 1; i < rendered.size(); ++i) {
    const auto blocks = rendered.blocks(i, whole);
    if (!blocks || *blocks < counts.back()) break;
    counts.push_back(*blocks);
  }
  counts.push_back(whole.generated.size());
  if (counts.size() == rendered.size() + 1) return counts;
  counts = {0};  // one block for each answer
  for (const Json& m : turns.messages) counts.push_back(counts.back() + is_answer(m));
  return counts.back() == whole.generated.size() ? std::optional(counts) : std::nullopt;
}

[[noreturn]] void fail_kept_out(std::size_t message, const WantedTurns& wanted) {
  const bool history = wanted.last_only;
  throw std::invalid_argument(
      str("message ", message + 1, ": ",
          history ? "data.mask_history has" : "\"weight\": 0 and \"train\": false have",
          " no effect, because the chat template does not show which part of its text is this message; take ",
          history ? "it out" : "the key out", ", or the row"));
}

}  // namespace

WrittenChat TurnWriter::marked(const Rendered& rendered, const ChatTurns& turns,
                               const jinja::Rendering& whole, const WantedTurns& wanted) const {
  // The blocks mark the answers as trained; a message's own setting overrides this.
  std::vector<std::size_t> kept_out, added;
  for (std::size_t i = 0; i < rendered.size(); ++i) {
    const bool answer = is_answer(turns.messages[i]);
    if (wanted.kept_out[i] && answer) kept_out.push_back(i);
    if (wanted.trained[i] && !answer) added.push_back(i);
  }
  std::optional<std::vector<std::size_t>> before;
  if (!kept_out.empty() || !added.empty() || wanted.located) before = blocks_before(rendered, turns, whole);
  if (!kept_out.empty() && !before) fail_kept_out(kept_out.front(), wanted);
  WrittenChat out;
  for (const std::size_t i : added)
    if (!before || (*before)[i] == (*before)[i + 1]) out.lost.push_back(static_cast<std::int32_t>(i) + 1);
  Cutter cutter(whole.text);
  for (std::size_t b = 0; b < whole.generated.size(); ++b) {
    const auto [begin, end] = whole.generated[b];
    const auto closing = ending(whole.text, begin, end, special_tokens_);
    const bool closes = closing.second != end || closing.first != end;
    const std::int64_t message =
        before ? std::upper_bound(before->begin(), before->end(), b) - before->begin() - 1 : -1;
    cutter.cut(begin, end, Kind::generated, message, closes);
  }
  out.parts = cutter.finish();
  return out;
}

WrittenChat TurnWriter::write(const ChatTurns& turns, const WantedTurns& wanted) const {
  const Rendered rendered(*this, turns);
  const jinja::Rendering whole = rendered.beginning(rendered.size(), false);
  const std::string& text = whole.text;
  if (whole.marks) return marked(rendered, turns, whole, wanted);
  if (const auto plain = format_ ? plain_messages(turns.messages) : std::nullopt) try {
      std::vector<ChatPart> parts = render_chat(*format_, *plain, tokenizer_);
      if (joined(parts) == text) return {std::move(parts)};
    } catch (const std::invalid_argument&) {  // the format refuses a conversation that the template accepts
    }
  const auto sought = [&](std::size_t i) {
    return wanted.trained[i] || (wanted.inputs && wanted.kept_out[i]);
  };
  std::vector<Found> found(rendered.size());
  bool opened = false;  // a wanted answer begins with the text that opens an answer
  for (std::size_t i = 0; i < rendered.size(); ++i) {
    if (!sought(i) && !wanted.ends) continue;
    found[i] = find_message(rendered, tokenizer_, text, i, is_answer(turns.messages[i]));
    opened |= sought(i) && is_answer(turns.messages[i]) && found[i].opened && found[i].end > 0;
  }
  WrittenChat out;
  Cutter cutter(text);
  for (std::size_t i = 0; i < rendered.size(); ++i) {
    if (!sought(i) && !wanted.ends) continue;
    auto [begin, end, own_opened] = found[i];
    if (!own_opened && opened && sought(i)) begin = end = 0;
    begin = std::max(begin, cutter.done());
    const auto [closing, behind] = ending(text, begin, std::max(begin, end), special_tokens_);
    std::size_t stop = closing;
    if (!is_answer(turns.messages[i]) && end > begin) {  // skip the frame before the content
      const std::string_view content = content_of(turns.messages[i]);
      const std::size_t at =
          content.empty() ? std::string::npos : text.rfind(content, closing - content.size());
      const bool there = at != std::string::npos && at >= begin && at + content.size() <= closing;
      begin = there ? at : end;
      stop = there ? at + content.size() : end;
    }
    const bool lost = end <= begin;
    if (lost && wanted.inputs && wanted.kept_out[i]) fail_kept_out(i, wanted);
    if (lost && wanted.trained[i] && !wanted.inputs) out.lost.push_back(static_cast<std::int32_t>(i) + 1);
    if (!lost && wanted.trained[i] && !own_opened) out.unopened.push_back(static_cast<std::int32_t>(i) + 1);
    if (sought(i)) cutter.cut(begin, stop, Kind::content, static_cast<std::int64_t>(i));
    if (!lost || !sought(i)) cutter.cut(closing, behind, Kind::end, static_cast<std::int64_t>(i));
  }
  out.parts = cutter.finish();
  return out;
}

std::string TurnWriter::text(const ChatTurns& turns) const {
  const Rendered rendered(*this, turns);
  return rendered.beginning(rendered.size(), false).text;
}

std::string TurnWriter::prompt(const ChatTurns& turns) const {
  const Rendered rendered(*this, turns);
  return rendered.beginning(rendered.size(), true).text;
}

std::string TurnWriter::end_of_answer() const try {
  const ChatTurns turns{
      {Json{{"role", "user"}, {"content", "a"}}, Json{{"role", "assistant"}, {"content", "b"}}}};
  const std::string text = Rendered(*this, turns).beginning(2, false).text;
  const auto [begin, end] = ending(text, 0, text.size(), special_tokens_);
  return text.substr(begin, end - begin);
} catch (const std::invalid_argument&) {
  return "";
}

}  // namespace ft
