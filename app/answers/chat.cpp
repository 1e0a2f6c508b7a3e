#include "app/answers/chat.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "app/answers/answer_out.h"
#include "app/answers/asking.h"
#include "app/answers/generation.h"
#include "app/answers/text_stream.h"
#include "app/process/signals.h"
#include "app/screen/format.h"

namespace ft {
namespace {

// Sizes for one answer at a time. A decoder's context holds the turns and the answer. An encoder-decoder's
// source holds the line, and its decoder holds only the answer.
GenerationShape shape_of(const Answerer& a) {
  const std::int64_t context = a.context_length();
  if (!a.reads_sources()) return {{.slots = 1, .capacity = context}, context};
  const GenerationConfig& g = a.config.generation;
  if (g.max_length && *g.max_length < 2)
    throw UserError(Exit::config,
                    "generation.max_length: the start token counts too, so 1 leaves no room for an answer");
  return {{.slots = 1,
           .capacity = g.max_length.value_or(g.max_new_tokens + 1),
           .sources = 1,
           .source_capacity = context},
          1,
          context};
}

// The turns so far, and how they are written for the model.
class Conversation {
 public:
  explicit Conversation(const Answerer& a) : asking_(a) {}
  const Asking& asking() const { return asking_; }
  void forget() { said_ = {}; }

  // Adds the user's words and returns the tokens before the answer. Drops the oldest turns while there are
  // more than `most` tokens.
  std::vector<std::int32_t> ask(const std::string& words, std::size_t most) {
    if (!asking_.has_turns()) return asking_.question(words);
    say(said_, "user", words);
    std::vector<std::int32_t> ids = tokens();
    while (ids.size() > most && said_.messages.size() > 2) {
      said_.messages.erase(said_.messages.begin(), said_.messages.begin() + 2);
      ids = tokens();
    }
    return ids;
  }
  void answered(const std::string& words) {
    if (asking_.has_turns()) say(said_, "assistant", words);
  }
  void take_back() {
    if (asking_.has_turns()) said_.messages.pop_back();
  }
  // Tokens and texts that end an answer.
  const AnswerEnds& ends() const { return asking_.has_turns() ? asking_.chat_ends() : asking_.plain_ends(); }
  // Text after the model's name on the first line.
  std::string form() const {
    if (asking_.has_turns()) return "; turns are written " + asking_.origin();
    if (!asking_.is_known()) return "; each line is a separate prompt (no chat format)";
    return str("; each line is a separate ", asking_.written() == Written::alpaca ? "instruction" : "prompt",
               ", ", asking_.origin());
  }

 private:
  std::vector<std::int32_t> tokens() const {
    try {
      return asking_.conversation(said_);
    } catch (const std::invalid_argument& wrong) {
      throw UserError(Exit::input, wrong.what());
    }
  }

  Asking asking_;
  ChatTurns said_;
};

class Chat {
 public:
  Chat(Answerer& a, Screen& screen, bool asks)
      : answerer_(a),
        conversation_(a),
        screen_(screen),
        out_(screen),
        asks_(asks),
        ends_(conversation_.ends()),
        shape_(shape_of(a)),
        engine_(start_engine(a, shape_)),
        generator_(engine_.context, engine_.store, a.built.model(), shape_,
                   {a.config.generation, ends_.tokens}) {
    if (!a.reads_sources()) generator_.keep_cache();  // an encoder-decoder's cache depends on the source
  }

  std::string form() const { return conversation_.form(); }

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

  // Waits until a line can be read. The first Ctrl-C discards the typed text; the second ends the program.
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
    // turns may fill half of the context, so that the answer has the other half; a first turn may be longer
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
      out_.add(text.add(token));
      return !text.stopped() && !interrupt.asked();
    });
    out_.add(text.finish());
    out_.end();
    conversation_.answered(text.whole());
  }

  const Answerer& answerer_;
  Conversation conversation_;
  Screen& screen_;
  AnswerOut out_;
  bool asks_;
  AnswerEnds ends_;
  GenerationShape shape_;
  Engine& engine_;
  Generator generator_;
  std::uint64_t turns_ = 0;
};

}  // namespace

Exit chat(const AnswererArgs& args) {
  Screen screen(Screen::standard_error());
  Answerer a(args);
  show_warnings(screen, a.built);
  a.text();
  if (a.config.generation.num_beams > 1)
    throw UserError(Exit::config,
                    "generation.num_beams: ft chat prints an answer token by token, but beam search has no "
                    "tokens before its end; set generation.num_beams=1");
  const bool asks = isatty(STDIN_FILENO) != 0;
  Chat chat(a, screen, asks);
  if (asks)
    screen.line(str(a.built.made.info.architecture, " from ", show::path(args.model),
                    args.adapter.empty() ? "" : " with " + show::path(args.adapter),
                    a.reads_sources() ? "; each line is a separate source" : chat.form(),
                    ". /reset, /quit; Ctrl-C stops an answer"));
  chat.run();
  return Exit::done;
}

}  // namespace ft
