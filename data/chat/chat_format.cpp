#include "data/chat/chat_format.h"

#include <array>
#include <stdexcept>
#include <utility>

#include "data/files/utf8.h"
#include "engine/core/error.h"

namespace ft {
namespace {

using Kind = ChatPart::Kind;

// Stanford Alpaca's preface (https://github.com/tatsu-lab/stanford_alpaca), where no system message stands
// in its place.
constexpr std::string_view kAlpacaPreface =
    "Below is an instruction that describes a task. Write a response that appropriately completes the "
    "request.";

class Writer {
 public:
  Writer(const ChatFormat& format, const Tokenizer& tokenizer)
      : format_(format), bos_(named(tokenizer, tokenizer.bos())), eos_(named(tokenizer, tokenizer.eos())) {}

  std::vector<ChatPart> write(std::span<const ChatMessage> messages) {
    begin();
    for (std::size_t i = 0; i < messages.size(); ++i) {
      number_ = static_cast<std::int64_t>(i);
      const std::string_view content = messages[i].content;
      text_ = std::string(format_.trim ? strip_right(strip_left(content)) : content);
      if (messages[i].role == "system")
        system();
      else if (messages[i].role == "user")
        user();
      else
        assistant();
    }
    return std::move(parts_);
  }

  // Returns the text between a user's message and the answer.
  std::string answer_opening() const {
    switch (format_.style) {
      case ChatStyle::llama3:
        return "<|start_header_id|>assistant<|end_header_id|>\n\n";
      case ChatStyle::chatml:
        return "<|im_start|>assistant\n";
      case ChatStyle::zephyr:
        return "<|assistant|>\n";
      case ChatStyle::gemma:
        return "<start_of_turn>model\n";
      default:
        return "";
    }
  }

 private:
  static std::string named(const Tokenizer& tokenizer, std::optional<std::int32_t> id) {
    return id ? tokenizer.token(*id) : "";
  }

  void frame(const std::string& text) {
    if (!text.empty()) parts_.push_back({Kind::frame, text});
  }
  void content() {
    if (!text_.empty()) parts_.push_back({Kind::content, text_, number_});
  }
  void end(const std::string& text) {
    if (!text.empty()) parts_.push_back({Kind::end, text, number_});
  }
  // A message between the signs of its role.
  void framed(const std::string& before, const std::string& close, const std::string& after = "") {
    frame(before);
    content();
    end(close);
    frame(after);
  }

  void begin() {
    const ChatStyle s = format_.style;
    if (s == ChatStyle::plain || s == ChatStyle::alpaca || s == ChatStyle::llama3 ||
        s == ChatStyle::mistral || s == ChatStyle::gemma)
      frame(bos_);
  }

  void system() {
    switch (format_.style) {
      case ChatStyle::plain:
        return framed("", "", "\n");
      case ChatStyle::alpaca:
        prefaced_ = true;
        return framed("", "", "\n\n");
      case ChatStyle::llama3:
        return framed("<|start_header_id|>system<|end_header_id|>\n\n", "<|eot_id|>");
      case ChatStyle::chatml:
        return framed("<|im_start|>system\n", "<|im_end|>", "\n");
      case ChatStyle::zephyr:
        return framed("<|system|>\n", eos_, "\n");
      // In these styles the system message stands inside the first user's message.
      case ChatStyle::llama2:
        opened_ = true;
        return framed(bos_ + "[INST] <<SYS>>\n", "", "\n<</SYS>>\n\n");
      case ChatStyle::mistral:
        opened_ = true;
        return framed("[INST] ", "", "\n\n");
      case ChatStyle::gemma:
        opened_ = true;
        return framed("<start_of_turn>user\n", "", "\n\n");
    }
  }

  void user() {
    const bool opened = std::exchange(opened_, false);
    switch (format_.style) {
      case ChatStyle::plain:
        return framed("", "", "\n");
      case ChatStyle::alpaca:
        if (!std::exchange(prefaced_, true)) frame(str(kAlpacaPreface, "\n\n"));
        return framed("### Instruction:\n", "", "\n\n### Response:");
      case ChatStyle::llama2:
        return framed(opened ? "" : bos_ + "[INST] ", "", " [/INST]");
      case ChatStyle::llama3:
        return framed("<|start_header_id|>user<|end_header_id|>\n\n", "<|eot_id|>");
      case ChatStyle::chatml:
        return framed("<|im_start|>user\n", "<|im_end|>", "\n");
      case ChatStyle::mistral:
        return framed(opened ? "" : "[INST] ", "", " [/INST]");
      case ChatStyle::zephyr:
        return framed("<|user|>\n", eos_, "\n");
      case ChatStyle::gemma:
        return framed(opened ? "" : "<start_of_turn>user\n", "<end_of_turn>", "\n");
    }
  }

  void assistant() {
    const std::string opening = answer_opening();
    switch (format_.style) {
      case ChatStyle::plain:
        return framed("", eos_, "\n");
      case ChatStyle::alpaca:
        return framed("", eos_, "\n\n");
      case ChatStyle::llama2:
        return framed(" ", " " + eos_);
      case ChatStyle::llama3:
        return framed(opening, "<|eot_id|>");
      case ChatStyle::chatml:
        return framed(opening, "<|im_end|>", "\n");
      case ChatStyle::mistral:
        return framed(" ", eos_);
      case ChatStyle::zephyr:
        return framed(opening, eos_, "\n");
      case ChatStyle::gemma:
        return framed(opening, "<end_of_turn>", "\n");
    }
  }

  ChatFormat format_;
  std::string bos_, eos_;  // "" where the tokenizer has none
  std::vector<ChatPart> parts_;
  std::string text_;
  std::int64_t number_ = 0;
  bool opened_ = false;    // a user's message was opened by the system's
  bool prefaced_ = false;  // Alpaca's preface, or a system message, was written
};

// Formats that tell roles apart by turns alone need them in turn; those that name each role take any order,
// as their templates do.
bool names_roles(ChatStyle style) {
  return style == ChatStyle::llama3 || style == ChatStyle::chatml || style == ChatStyle::zephyr ||
         style == ChatStyle::plain;
}

void check(const ChatFormat& format, std::span<const ChatMessage> messages) {
  if (messages.empty()) throw std::invalid_argument("no messages");
  bool user_next = true;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const std::string& role = messages[i].role;
    const auto fail = [&](const std::string& what) {
      throw std::invalid_argument(str("message ", i + 1, ": ", what));
    };
    if (role != "system" && role != "user" && role != "assistant")
      fail(str("unknown role \"", printable(role, 40), "\"; ft knows system, user and assistant"));
    if (names_roles(format.style)) continue;
    if (role == "system") {
      if (i > 0) fail("this chat format allows a system message only at the beginning");
      continue;
    }
    if ((role == "user") != user_next)
      fail(user_next ? "an assistant message where this chat format expects a user message"
                     : "a user message where this chat format expects an assistant message");
    user_next = !user_next;
  }
  if (messages.back().role == "system" && !names_roles(format.style))
    throw std::invalid_argument("there is only a system message");
}

}  // namespace

std::optional<ChatFormat> chat_format_by_name(std::string_view name) {
  static constexpr std::array<std::pair<std::string_view, ChatStyle>, 8> kNames{{
      {"plain", ChatStyle::plain},
      {"alpaca", ChatStyle::alpaca},
      {"llama2", ChatStyle::llama2},
      {"llama3", ChatStyle::llama3},
      {"chatml", ChatStyle::chatml},
      {"mistral", ChatStyle::mistral},
      {"zephyr", ChatStyle::zephyr},
      {"gemma", ChatStyle::gemma},
  }};
  for (const auto& [known, style] : kNames)
    if (name == known) return ChatFormat{style};
  return std::nullopt;
}

std::vector<ChatPart> render_chat(const ChatFormat& format, std::span<const ChatMessage> messages,
                                  const Tokenizer& tokenizer) {
  check(format, messages);
  return Writer(format, tokenizer).write(messages);
}

std::string render_chat_prompt(const ChatFormat& format, std::span<const ChatMessage> messages,
                               const Tokenizer& tokenizer) {
  check(format, messages);
  if (messages.back().role != "user") throw std::invalid_argument("the last message is not a user message");
  Writer writer(format, tokenizer);
  std::string text;
  for (const ChatPart& part : writer.write(messages)) text += part.text;
  return text + writer.answer_opening();
}

}  // namespace ft
