#include "app/answers/generate.h"

#include <chrono>
#include <nlohmann/json.hpp>

#include "app/answers/answer_out.h"
#include "app/answers/questions.h"
#include "app/answers/text_stream.h"
#include "app/screen/format.h"
#include "engine/files/file.h"
#include "engine/files/json.h"
#include "engine/generate/ranks.h"

namespace ft {
namespace {

// The answers so far, and the live line that counts them.
class Answers {
 public:
  using Clock = std::chrono::steady_clock;
  Answers(const Answerer& a, const Questions& q, Screen& screen) : answerer_(a), screen_(screen) {
    ids.resize(q.rows.size());
    for (const AnswerEnds* ends : q.ends) {
      if (!ends) continue;
      texts.emplace_back(*a.tokenizer, ends->texts);
      stops_ = stops_ || !ends->texts.empty();
    }
  }
  bool add(std::size_t i, std::int32_t token) {
    if (ids[i].empty()) ++begun_;
    ids[i].push_back(token);
    ++tokens;
    if (screen_.live())
      screen_.live_line([this](int) {
        return str("answering  ", show::count(begun_), " of ",
                   show::plural(static_cast<std::int64_t>(ids.size()), "prompt"), "  ",
                   show::plural(tokens, "token"), "  ", speed());
      });
    if (!stops_) return true;
    texts[i].add(token);
    return !texts[i].stopped();
  }
  std::string speed() const { return show::speed(static_cast<double>(tokens) / seconds()); }
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  std::string completion(std::size_t i) const {
    if (stops_ && texts[i].stopped()) return texts[i].text();
    return answerer_.tokenizer->decode(ids[i], true);
  }

  std::vector<std::vector<std::int32_t>> ids;
  std::vector<TextStream> texts;
  std::int64_t tokens = 0;

 private:
  const Answerer& answerer_;
  Screen& screen_;
  bool stops_ = false;  // some answers may end at a stop string
  std::int64_t begun_ = 0;
  Clock::time_point start_ = Clock::now();
};

void write_answers(AtomicFile& out, Questions& q, const Answers& answers, const Answerer& a) {
  for (std::size_t i = 0; i < q.rows.size(); ++i) {
    Json& row = q.rows[i];
    if (a.tokenizer) row["completion"] = answers.completion(i);
    row["output_ids"] = answers.ids[i];
    out.write(json_text(row, -1) + "\n");
  }
  out.commit();
}

// Adds the answers of the other ranks.
void collect(Communicator& comm, Answers& answers) {
  std::vector<std::vector<std::int32_t>> all = answers.ids;
  share_answers(comm, all);
  for (std::size_t i = 0; i < all.size(); ++i)
    if (answers.ids[i].empty())
      for (const std::int32_t id : all[i]) answers.add(i, id);
}

// Tells the user if prompts are written in another form instead of continued.
void show_form(const Questions& q, Screen& screen) {
  if (q.reworded)
    screen.line(str("prompts are written ",
                    q.asking->written() == Written::chat ? "as turns of a user, " : "in Alpaca's words, ",
                    q.asking->origin(), "; data.chat_template=none continues them as they are"));
}

Exit generate_file(const GenerateArgs& args, Answerer& a, Screen& screen) {
  const Ranks& ranks = a.run.ranks;
  if (path_exists(args.output) && !args.overwrite)
    throw UserError(Exit::config, str(printable(args.output), " already exists; --overwrite replaces it"));
  { const AtomicFile writable(args.output); }  // fails now instead of after the work
  const std::unique_ptr<Questions> read = read_questions(args.input, a);
  Questions& q = *read;
  if (ranks.root()) show_form(q, screen);
  if (!a.tokenizer && ranks.root()) screen.line("no completion texts, only output_ids: " + a.no_tokenizer);
  const GenerationShape shape = a.shape(q.prompts);
  Engine& engine = start_engine(a, shape);
  Generator generator(engine.context, engine.store, a.built.model(), shape, a.chooser());
  Answers answers(a, q, screen);
  const std::vector<Prompt> prompts = own_prompts(q.prompts, engine.grid.zero());
  generator.run(
      prompts, [&](std::size_t i, std::int32_t token) { return answers.add(prompts[i].number, token); },
      asked_of_all(engine.store));
  collect(engine.grid.zero(), answers);
  screen.clear();
  if (!ranks.root()) return Exit::done;
  AtomicFile out(args.output);
  write_answers(out, q, answers, a);
  screen.line(str("answered ", show::plural(static_cast<std::int64_t>(q.rows.size()), "prompt"), " with ",
                  show::plural(answers.tokens, "token"), " in ", show::duration(answers.seconds()), ", ",
                  answers.speed(), " -> ", show::path(args.output)));
  return Exit::done;
}

Exit generate_one(const GenerateArgs& args, Answerer& a, Screen& screen) {
  const std::unique_ptr<Questions> q = one_question(args.prompt, a);
  show_form(*q, screen);
  const GenerationShape shape = a.shape(q->prompts);
  Engine& engine = start_engine(a, shape);
  Generator generator(engine.context, engine.store, a.built.model(), shape, a.chooser());
  TextStream text(*a.tokenizer, q->ends[0]->texts);
  AnswerOut out(screen);
  generator.run(q->prompts, [&](std::size_t, std::int32_t token) {
    out.add(text.add(token));
    return !text.stopped();
  });
  out.add(text.finish());
  out.end();
  return Exit::done;
}

}  // namespace

Exit generate(const GenerateArgs& args) {
  Answerer a(args);
  const Ranks& ranks = a.run.ranks;
  if (ranks.size > 1 && args.input.empty())
    throw UserError(Exit::config,
                    "ft launch generate: give --input FILE; --prompt is answered by one process");
  Screen screen(Screen::standard_error(ranks.root() ? ProgressStyle::by_terminal : ProgressStyle::none));
  if (ranks.root()) show_warnings(screen, a.built);
  return args.input.empty() ? generate_one(args, a, screen) : generate_file(args, a, screen);
}

}  // namespace ft
