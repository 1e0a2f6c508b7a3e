#include "app/answers/chat.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <iostream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "app/answers/generation.h"
#include "app/answers/text_stream.h"
#include "app/files/model_files.h"
#include "app/process/signals.h"
#include "app/screen/format.h"
#include "data/chat_template.h"
#include "engine/io/file.h"
#include "engine/io/json.h"

namespace ft {
namespace {

bool reads_sources(const Answerer& a) { return a.built.made.info.decoder.has_value(); }

// Tokens of a conversation, or of a source, that the model sees: its context, but not more memory than people
// expect.
std::int64_t context_length(const Answerer& a) {
  if (!reads_sources(a) && a.config.generation.max_length) return *a.config.generation.max_length;
  constexpr std::int64_t kMost = 4096;
  const JsonObject j = JsonObject::read(join_path(a.built.folder, "config.json"));
  return std::min(kMost, j.positive_or("max_position_embeddings", 2048));
}

// One answer at a time. A decoder's context holds the turns and the answer; an encoder-decoder's holds the
// line, and the decoder has the answer to itself.
GenerationShape shape_of(const Answerer& a) {
  const std::int64_t context = context_length(a);
  if (!reads_sources(a)) return {{.slots = 1, .capacity = context}, context};
  const GenerationConfig& g = a.config.generation;
  if (g.max_length && *g.max_length < 2)
    throw UserError(Exit::config,
                    "generation.max_length: the start token counts too, so that 1 leaves no answer");
  return {{.slots = 1,
           .capacity = g.max_length.value_or(g.max_new_tokens + 1),
           .sources = 1,
           .source_capacity = context},
          1,
          context};
}

// The one that data.chat_template names, else the model's own; nothing where there is none.
std::optional<ChatTemplate> template_of(const Answerer& a) {
  const auto& setting = a.config.data.chat_template;
  if (reads_sources(a)) {
    if (!setting) return std::nullopt;
    throw UserError(Exit::config,
                    "data.chat_template: an encoder-decoder reads one text at a time, without turns");
  }
  if (!setting && !holds_chat_template(a.config.model.tokenizer())) return std::nullopt;
  return std::optional<ChatTemplate>(std::in_place, setting, a.config.model.tokenizer(), a.text());
}

// What has been said, and how the model reads it.
class Conversation {
 public:
  explicit Conversation(const Answerer& a) : answerer_(a), template_(template_of(a)) {}
  bool remembers() const { return template_.has_value(); }
  void forget() { said_.clear(); }

  // Tokens up to where the answer begins; the oldest turns go where there are more than `most`.
  std::vector<std::int32_t> ask(const std::string& words, std::size_t most) {
    if (!template_) return answerer_.ids_of(words);
    said_.push_back({"user", words});
    std::vector<std::int32_t> ids = tokens();
    while (ids.size() > most && said_.size() > 2) {
      said_.erase(said_.begin(), said_.begin() + 2);
      ids = tokens();
    }
    return ids;
  }
  void answered(const std::string& words) {
    if (template_) said_.push_back({"assistant", words});
  }
  void take_back() {
    if (template_) said_.pop_back();
  }
  // What closes an answer, such as <|im_end|>; "" for none.
  std::string end() const {
    if (!template_) return "";
    if (!template_->format()) return template_->writer(false).end_of_answer();
    const std::array<ChatMessage, 2> turns{ChatMessage{"user", "a"}, ChatMessage{"assistant", "b"}};
    std::string closing;
    for (const ChatPart& part : render_chat(*template_->format(), turns, answerer_.text()))
      if (part.kind == ChatPart::Kind::end) closing = part.text;
    closing.erase(0, closing.find_first_not_of(" \n"));
    return closing;
  }

 private:
  std::vector<std::int32_t> tokens() const {
    if (template_->format())
      return answerer_.text().encode(render_chat_prompt(*template_->format(), said_, answerer_.text()));
    ChatTurns turns;
    for (const ChatMessage& m : said_) {
      turns.messages.push_back({{"role", m.role}, {"content", m.content}});
      turns.bytes += m.content.size();
    }
    try {
      return answerer_.text().encode(template_->writer(false).prompt(turns));
    } catch (const std::invalid_argument& wrong) {
      throw UserError(Exit::input, wrong.what());
    }
  }

  const Answerer& answerer_;
  std::optional<ChatTemplate> template_;
  std::vector<ChatMessage> said_;
};

// An answer also ends where the format closes it: at a token, or a text where the tokenizer has no such
// token.
TokenChooser chooser_of(const Answerer& a, const std::string& end, std::vector<std::string>& stop_strings) {
  std::vector<std::int32_t> tokens = a.end_tokens;
  if (const auto token = a.text().id(end); token && a.text().is_special(*token))
    tokens.push_back(*token);
  else if (!end.empty())
    stop_strings.push_back(end);
  return {a.config.generation, std::move(tokens)};
}

class Chat {
 public:
  Chat(const Answerer& a, Screen& screen, bool asks)
      : answerer_(a),
        conversation_(a),
        screen_(screen),
        asks_(asks),
        stop_strings_(a.config.generation.stop_strings.value_or(std::vector<std::string>{})),
        shape_(shape_of(a)),
        engine_(start_engine(a, shape_)),
        generator_(engine_->context, engine_->store, a.built.model(), shape_,
                   chooser_of(a, conversation_.end(), stop_strings_)) {
    if (!reads_sources(a)) generator_.keep_cache();  // what a decoder layer holds depends on the source
  }

  bool remembers() const { return conversation_.remembers(); }

  void run() {
    for (std::string line; read(line);) {
      if (line == "/quit" || line == "/exit") return;
      if (line == "/reset") {
        turns_ = 0;
        conversation_.forget();
      } else if (line.starts_with("/")) {
        screen_.line(printable(line) + ": unknown command; use /reset or /quit");
      } else if (line.find_first_not_of(" \t") != std::string::npos) {
        answer(line);
      }
    }
    if (asks_) std::cerr << "\n";
  }

 private:
  bool read(std::string& line) {
    if (asks_) std::cerr << screen_.bold("> ") << std::flush;
    if (!std::getline(std::cin, line)) return false;
    if (line.ends_with('\r')) line.pop_back();
    return true;
  }

  void answer(const std::string& words) {
    // half of the context is left to the answer where there are turns that can go
    std::vector<std::int32_t> ids =
        conversation_.ask(words, static_cast<std::size_t>(shape_.cache.capacity / 2));
    const auto length = static_cast<std::int64_t>(ids.size());
    const std::int64_t most =
        reads_sources(answerer_) ? shape_.cache.source_capacity : shape_.cache.capacity - 1;
    if (length < 1 || length > most) {
      conversation_.take_back();
      return screen_.line(str("this is ", length, " tokens; there is room for ", most));
    }
    Prompt p = answerer_.prompt_of(std::move(ids));
    p.number = turns_++;
    const std::int64_t room = shape_.cache.capacity - static_cast<std::int64_t>(p.ids.size());
    p.max_new_tokens = std::min(answerer_.config.generation.most(p.ids.size()), room);
    TextStream text(*answerer_.tokenizer, stop_strings_);
    const NotedInterrupt interrupt(asks_);
    const std::vector<Prompt> prompts{std::move(p)};
    generator_.run(prompts, [&](std::size_t, std::int32_t token) {
      std::cout << text.add(token) << std::flush;
      return !text.stopped() && !interrupt.asked();
    });
    std::cout << text.finish() << std::endl;
    conversation_.answered(text.text());
  }

  const Answerer& answerer_;
  Conversation conversation_;
  Screen& screen_;
  bool asks_;
  std::vector<std::string> stop_strings_;
  GenerationShape shape_;
  std::unique_ptr<Engine> engine_;
  Generator generator_;
  std::uint64_t turns_ = 0;
};

}  // namespace

Exit chat(const AnswererArgs& args) {
  Screen screen(Screen::standard_error());
  const Answerer a = open_answerer(args);
  a.text();
  if (a.config.generation.num_beams > 1)
    throw UserError(Exit::config,
                    "generation.num_beams: ft chat prints an answer token by token, but beam search has none "
                    "before its end; set generation.num_beams=1");
  const bool asks = isatty(STDIN_FILENO) != 0;
  Chat chat(a, screen, asks);
  if (asks)
    screen.line(str(a.built.made.info.architecture, " from ", show::path(args.model),
                    args.adapter.empty() ? "" : " with " + show::path(args.adapter),
                    reads_sources(a)   ? "; each line is a separate source"
                    : chat.remembers() ? ""
                                       : "; each line is a separate prompt (no chat format)",
                    ". /reset, /quit; Ctrl-C stops an answer"));
  chat.run();
  return Exit::done;
}

}  // namespace ft
