#include "data/chat_turns.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "data/utf8.h"
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

// A text cut into parts one after another.
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

// The text of a message's content where it is one, without white space around it.
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

// One conversation with its template: renderings of its beginnings.
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
  // The same where a beginning that the template refuses is no mistake.
  std::optional<std::string> text(std::size_t count, bool prompt) const {
    try {
      return beginning(count, prompt).text;
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
      special_tokens_(special_tokens_of(tokenizer)) {}

namespace {

// Where the special token that ends text[begin, end) begins, white space behind it left out: (its beginning,
// its end), both `end` where there is none.
std::pair<std::size_t, std::size_t> ending(std::string_view text, std::size_t begin, std::size_t end,
                                           const std::vector<std::string>& specials) {
  const std::string_view turn = strip_right(text.substr(begin, end - begin));
  std::size_t longest = 0;
  for (const std::string& s : specials)
    if (turn.ends_with(s)) longest = std::max(longest, s.size());
  if (longest == 0) return {end, end};
  return {begin + turn.size() - longest, begin + turn.size()};
}

}  // namespace

WrittenChat TurnWriter::write(const ChatTurns& turns, const std::vector<bool>& wanted, bool ends) const {
  const Rendered rendered(*this, turns);
  const jinja::Rendering whole = rendered.beginning(rendered.size(), false);
  const std::string& text = whole.text;
  Cutter cutter(text);
  if (whole.marks) {
    for (const auto& [begin, end] : whole.generated) {
      const bool closes = ending(text, begin, end, special_tokens_).second != end ||
                          ending(text, begin, end, special_tokens_).first != end;
      cutter.cut(begin, end, Kind::generated, -1, closes);
    }
    return {cutter.finish()};
  }
  if (const auto plain = format_ ? plain_messages(turns.messages) : std::nullopt) try {
      std::vector<ChatPart> parts = render_chat(*format_, *plain, tokenizer_);
      if (joined(parts) == text) return {std::move(parts)};
    } catch (const std::invalid_argument&) {  // the format refuses what the template takes
    }
  WrittenChat out;
  for (std::size_t i = 0; i < rendered.size(); ++i) {
    if (!wanted[i] && !ends) continue;
    const auto message = static_cast<std::int64_t>(i);
    const bool answer = turns.messages[i].at("role") == "assistant";
    const auto before = i == 0 && !answer ? std::optional<std::string>("") : rendered.text(i, answer);
    const auto until = i + 1 == rendered.size() ? text : rendered.text(i + 1, false);
    std::size_t begin = 0, end = 0;
    if (before && until && text.starts_with(*until) && until->starts_with(*before)) {
      begin = std::max(before->size(), cutter.done());
      end = until->size();
    }
    const auto [closing, behind] = ending(text, begin, std::max(begin, end), special_tokens_);
    std::size_t stop = closing;
    if (!answer && end > begin) {  // its frame stands before it
      const std::string_view content = content_of(turns.messages[i]);
      const std::size_t at =
          content.empty() ? std::string::npos : text.rfind(content, closing - content.size());
      const bool there = at != std::string::npos && at >= begin && at + content.size() <= closing;
      begin = there ? at : end;
      stop = there ? at + content.size() : end;
    }
    if (end <= begin && wanted[i]) out.lost.push_back(static_cast<std::int32_t>(i) + 1);
    if (wanted[i]) cutter.cut(begin, stop, Kind::content, message);
    if (end > begin || !wanted[i]) cutter.cut(closing, behind, Kind::end, message);
  }
  out.parts = cutter.finish();
  return out;
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
