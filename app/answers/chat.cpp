#include "app/answers/chat.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "app/answers/chat_reader.h"
#include "app/answers/generation.h"
#include "app/answers/text_stream.h"
#include "app/files/model_files.h"
#include "app/process/signals.h"
#include "app/screen/format.h"

namespace ft {
namespace {

// One answer at a time. A decoder's context holds the turns and the answer; an encoder-decoder's holds the
// line, and the decoder has the answer to itself.
GenerationShape shape_of(const Answerer& a) {
  const std::int64_t context = a.context_length();
  if (!a.reads_sources()) return {{.slots = 1, .capacity = context}, context};
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
std::optional<ChatReader> reader_of(const Answerer& a) {
  const auto& setting = a.config.data.chat_template;
  if (a.reads_sources()) {
    if (!setting) return std::nullopt;
    throw UserError(Exit::config,
                    "data.chat_template: an encoder-decoder reads one text at a time, without turns");
  }
  if (!setting && !holds_chat_template(a.config.model.tokenizer())) return std::nullopt;
  return std::optional<ChatReader>(std::in_place, a.config.data, a.config.model.tokenizer(), a.text());
}

// What has been said, and how the model reads it.
class Conversation {
 public:
  explicit Conversation(const Answerer& a) : answerer_(a), reader_(reader_of(a)) {}
  bool remembers() const { return reader_.has_value(); }
  void forget() { said_ = {}; }

  // Tokens up to where the answer begins; the oldest turns go where there are more than `most`.
  std::vector<std::int32_t> ask(const std::string& words, std::size_t most) {
    if (!reader_) return answerer_.ids_of(words);
    say(said_, "user", words);
    std::vector<std::int32_t> ids = tokens();
    while (ids.size() > most && said_.messages.size() > 2) {
      said_.messages.erase(said_.messages.begin(), said_.messages.begin() + 2);
      ids = tokens();
    }
    return ids;
  }
  void answered(const std::string& words) {
    if (reader_) say(said_, "assistant", words);
  }
  void take_back() {
    if (reader_) said_.messages.pop_back();
  }
  // Where answers end.
  AnswerEnds ends() const {
    AnswerEnds ends{answerer_.end_tokens,
                    answerer_.config.generation.stop_strings.value_or(std::vector<std::string>{})};
    if (reader_) ends.add(reader_->end(), answerer_.text());
    return ends;
  }

 private:
  std::vector<std::int32_t> tokens() const {
    try {
      return reader_->prompt(said_);
    } catch (const std::invalid_argument& wrong) {
      throw UserError(Exit::input, wrong.what());
    }
  }

  const Answerer& answerer_;
  std::optional<ChatReader> reader_;
  ChatTurns said_;
};

class Chat {
 public:
  Chat(const Answerer& a, Screen& screen, bool asks)
      : answerer_(a),
        conversation_(a),
        screen_(screen),
        asks_(asks),
        ends_(conversation_.ends()),
        shape_(shape_of(a)),
        engine_(start_engine(a, shape_)),
        generator_(engine_->context, engine_->store, a.built.model(), shape_,
                   {a.config.generation, ends_.tokens}) {
    if (!a.reads_sources()) generator_.keep_cache();  // what a decoder layer holds depends on the source
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
    if (asks_) wait_for_line();
    if (!std::getline(std::cin, line)) return false;
    if (line.ends_with('\r')) line.pop_back();
    return true;
  }

  // Throws away what was typed at the first Ctrl-C; the second one ends the program.
  void wait_for_line() {
    const NotedInterrupt interrupt(true);
    pollfd keyboard{STDIN_FILENO, POLLIN, 0};
    for (bool told = false; ::poll(&keyboard, 1, -1) < 0;) {
      if (!interrupt.asked() || told) continue;
      std::cerr << "\n(Ctrl-C again, or /quit, ends the chat)\n" << screen_.bold("> ") << std::flush;
      told = true;
    }
  }

  void answer(const std::string& words) {
    // half of the context is left to the answer where there are turns that can go
    std::vector<std::int32_t> ids =
        conversation_.ask(words, static_cast<std::size_t>(shape_.cache.capacity / 2));
    const auto length = static_cast<std::int64_t>(ids.size());
    const std::int64_t most =
        answerer_.reads_sources() ? shape_.cache.source_capacity : shape_.cache.capacity - 1;
    if (length < 1 || length > most) {
      conversation_.take_back();
      return screen_.line(str("this is ", length, " tokens; there is room for ", most));
    }
    Prompt p = answerer_.prompt_of(std::move(ids));
    p.number = turns_++;
    const std::int64_t room = shape_.cache.capacity - static_cast<std::int64_t>(p.ids.size());
    p.max_new_tokens = std::min(answerer_.config.generation.most(p.ids.size()), room);
    TextStream text(*answerer_.tokenizer, ends_.texts);
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
  AnswerEnds ends_;
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
                    a.reads_sources()  ? "; each line is a separate source"
                    : chat.remembers() ? ""
                                       : "; each line is a separate prompt (no chat format)",
                    ". /reset, /quit; Ctrl-C stops an answer"));
  chat.run();
  return Exit::done;
}

}  // namespace ft
