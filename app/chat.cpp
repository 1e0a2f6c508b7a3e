// ft chat: a conversation. On a terminal it asks with "> "; through a pipe every line is a turn, and only
// answers go to stdout.
#include <unistd.h>

#include <algorithm>
#include <iostream>

#include "app/format.h"
#include "app/generation.h"
#include "app/signals.h"
#include "app/text_stream.h"
#include "engine/io/file.h"
#include "engine/io/json.h"

namespace ft {
namespace {

// Tokens of a conversation that the model sees: its context, but not more memory than people expect.
std::int64_t context_length(const Answerer& a) {
  if (a.length_in_all) return *a.config.generation.max_length;
  constexpr std::int64_t kMost = 4096;
  const JsonObject j = JsonObject::read(join_path(a.built.folder, "config.json"));
  return std::min(kMost, j.positive_or("max_position_embeddings", 2048));
}

class Chat {
 public:
  Chat(const Answerer& a, Screen& screen, bool asks)
      : answerer_(a),
        screen_(screen),
        asks_(asks),
        shape_{{1, context_length(a)}, context_length(a)},
        engine_(start_engine(a, shape_)),
        generator_(engine_->context, engine_->store, a.built.model(), shape_, a.chooser()) {}

  void run() {
    for (std::string line; read(line);) {
      if (line == "/quit" || line == "/exit") return;
      if (line == "/reset") {
        turns_ = 0;
      } else if (line.starts_with("/")) {
        screen_.line(printable(line) + ": there are /reset, /quit");
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
    Prompt p{.ids = answerer_.ids_of(words), .number = turns_++};
    const std::int64_t room = shape_.cache.capacity - static_cast<std::int64_t>(p.ids.size());
    const std::int64_t wanted = answerer_.length_in_all ? room : answerer_.config.generation.max_new_tokens;
    if (room < 1 || p.ids.empty())
      return screen_.line(
          str("that is ", p.ids.size(), " tokens, and there is room for ", shape_.cache.capacity - 1));
    p.max_new_tokens = std::min(wanted, room);
    const GenerationConfig& g = answerer_.config.generation;
    TextStream text(*answerer_.tokenizer, g.stop_strings.value_or(std::vector<std::string>{}));
    const NotedInterrupt interrupt(asks_);
    const std::vector<Prompt> prompts{std::move(p)};
    generator_.run(prompts, [&](std::size_t, std::int32_t token) {
      std::cout << text.add(token) << std::flush;
      return !text.stopped() && !interrupt.asked();
    });
    std::cout << text.finish() << std::endl;
  }

  const Answerer& answerer_;
  Screen& screen_;
  bool asks_;
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
  const bool asks = isatty(STDIN_FILENO) != 0;
  Chat chat(a, screen, asks);
  if (asks)
    screen.line(str(a.built.made.info.architecture, " from ", show::path(args.model),
                    args.adapter.empty() ? "" : " with " + show::path(args.adapter),
                    "; every line is a prompt. /reset, /quit; Ctrl-C stops an answer"));
  chat.run();
  return Exit::done;
}

}  // namespace ft
