#include "app/answers/generate.h"

#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>

#include "app/answers/generation.h"
#include "app/answers/text_stream.h"
#include "app/screen/format.h"
#include "data/json_row.h"
#include "engine/core/utf8.h"
#include "engine/generate/ranks.h"
#include "engine/io/file.h"
#include "engine/io/json.h"

namespace ft {
namespace {

std::vector<std::int32_t> ids_of(const Json& value, std::int64_t vocab_size, const Place& at) {
  if (!value.is_array()) at.fail("input_ids must be a list of token ids, is " + json_excerpt(value));
  std::vector<std::int32_t> ids;
  for (const Json& v : value) {
    const bool id = v.is_number_integer() && v >= 0 && v < vocab_size;
    if (!id)
      at.fail(str("input_ids has ", json_excerpt(v), "; the model's token ids are 0 to ", vocab_size - 1));
    ids.push_back(v.get<std::int32_t>());
  }
  return ids;
}

void require_tokens(const std::vector<std::int32_t>& ids, std::int64_t vocab_size, const Place& at) {
  for (const std::int32_t id : ids)
    if (id >= vocab_size)
      at.fail(str("the tokenizer gives token ", id, " and the model has only ", vocab_size,
                  ": they do not belong together"));
}

struct Questions {
  std::vector<Json> rows;
  std::vector<Prompt> prompts;
};

Prompt prompt_of(const Json& row, const Answerer& a, const Place& at) {
  const bool text = row.contains("prompt"), tokens = row.contains("input_ids");
  if (text == tokens) at.fail("a row needs either prompt (a string) or input_ids (token ids)");
  const std::int64_t V = a.built.model().vocab_size();
  std::vector<std::int32_t> ids;
  if (tokens) {
    ids = ids_of(row["input_ids"], V, at);
  } else {
    if (!row["prompt"].is_string()) at.fail("prompt must be a string, is " + json_excerpt(row["prompt"]));
    ids = a.ids_of(row["prompt"].get_ref<const std::string&>());
    require_tokens(ids, V, at);
  }
  if (ids.empty()) at.fail("the prompt is empty: there is nothing to continue");
  Prompt p = a.prompt_of(std::move(ids));
  p.max_new_tokens = a.config.generation.most(p.ids.size());
  if (p.max_new_tokens < 1)
    at.fail(str("the prompt has ", p.ids.size(), " tokens and generation.max_length is ",
                *a.config.generation.max_length));
  return p;
}

Questions read_questions(const std::string& file, const Answerer& a) {
  Questions q;
  Place at{&file};
  const auto rows = open_rows({file, file});
  for (Row row; rows->next(row);) {
    at.line = row.line;
    Json j = read_row(row.text, at, NonFinite::null);
    Prompt p = prompt_of(j, a, at);
    p.number = q.prompts.size();
    q.prompts.push_back(std::move(p));
    q.rows.push_back(std::move(j));
  }
  if (q.rows.empty()) throw UserError(Exit::input, printable(file) + ": has no rows");
  return q;
}

// The answers so far, and the line about them.
class Answers {
 public:
  using Clock = std::chrono::steady_clock;
  Answers(const Answerer& a, const Questions& q, Screen& screen) : answerer_(a), screen_(screen) {
    ids.resize(q.rows.size());
    if (a.tokenizer)
      for (std::size_t i = 0; i < q.rows.size(); ++i)
        texts.emplace_back(*a.tokenizer,
                           a.config.generation.stop_strings.value_or(std::vector<std::string>{}));
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
    if (!answerer_.config.generation.stop_strings) return true;
    texts[i].add(token);
    return !texts[i].stopped();
  }
  std::string speed() const { return show::speed(static_cast<double>(tokens) / seconds()); }
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  std::string completion(std::size_t i) const {
    if (answerer_.config.generation.stop_strings && texts[i].stopped()) return texts[i].text();
    return answerer_.tokenizer->decode(ids[i], true);
  }

  std::vector<std::vector<std::int32_t>> ids;
  std::vector<TextStream> texts;
  std::int64_t tokens = 0;

 private:
  const Answerer& answerer_;
  Screen& screen_;
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

// What the other ranks answered.
void collect(Communicator& comm, Answers& answers) {
  std::vector<std::vector<std::int32_t>> all = answers.ids;
  share_answers(comm, all);
  for (std::size_t i = 0; i < all.size(); ++i)
    if (answers.ids[i].empty())
      for (const std::int32_t id : all[i]) answers.add(i, id);
}

Exit generate_file(const GenerateArgs& args, const Answerer& a, const Ranks& ranks, Screen& screen) {
  if (path_exists(args.output) && !args.overwrite)
    throw UserError(Exit::config, str(printable(args.output), " already exists; --overwrite replaces it"));
  { const AtomicFile writable(args.output); }  // better now than after the work
  Questions q = read_questions(args.input, a);
  if (!a.tokenizer && ranks.root()) screen.line("no completion texts, only output_ids: " + a.no_tokenizer);
  const GenerationShape shape = a.shape(q.prompts);
  const auto engine = start_engine(a, shape, ranks);
  Generator generator(engine->context, engine->store, a.built.model(), shape, a.chooser());
  Answers answers(a, q, screen);
  const std::vector<Prompt> prompts = own_prompts(q.prompts, engine->grid.zero());
  generator.run(
      prompts, [&](std::size_t i, std::int32_t token) { return answers.add(prompts[i].number, token); },
      asked_of_all(engine->store));
  collect(engine->grid.zero(), answers);
  screen.clear();
  if (!ranks.root()) return Exit::done;
  AtomicFile out(args.output);
  write_answers(out, q, answers, a);
  screen.line(str("answered ", show::plural(static_cast<std::int64_t>(q.rows.size()), "prompt"), " with ",
                  show::plural(answers.tokens, "token"), " in ", show::duration(answers.seconds()), ", ",
                  answers.speed(), " -> ", show::path(args.output)));
  return Exit::done;
}

Exit generate_one(const GenerateArgs& args, const Answerer& a) {
  if (!is_utf8(args.prompt))
    throw UserError(Exit::config, "--prompt: is not UTF-8: " + printable(args.prompt, 80));
  std::vector<std::int32_t> ids = a.ids_of(args.prompt);
  const std::string setting = "--prompt";
  const Place at{&setting, 1};
  require_tokens(ids, a.built.model().vocab_size(), at);
  if (ids.empty()) throw UserError(Exit::config, "--prompt: it is empty");
  Prompt p = a.prompt_of(std::move(ids));
  p.max_new_tokens = a.config.generation.most(p.ids.size());
  if (p.max_new_tokens < 1)
    throw UserError(Exit::config, "--prompt: it is longer than generation.max_length");
  const std::vector<Prompt> prompts{std::move(p)};
  const GenerationShape shape = a.shape(prompts);
  const auto engine = start_engine(a, shape);
  Generator generator(engine->context, engine->store, a.built.model(), shape, a.chooser());
  TextStream text(*a.tokenizer, a.config.generation.stop_strings.value_or(std::vector<std::string>{}));
  generator.run(prompts, [&](std::size_t, std::int32_t token) {
    std::cout << text.add(token) << std::flush;
    return !text.stopped();
  });
  std::cout << text.finish() << "\n";
  return Exit::done;
}

}  // namespace

Exit generate(const GenerateArgs& args) {
  const Answerer a = open_answerer(args);
  const Ranks& ranks = a.ranks;
  if (ranks.size > 1 && args.input.empty())
    throw UserError(Exit::config,
                    "ft launch generate: give --input FILE; --prompt is answered by one process");
  Screen screen(Screen::standard_error(ranks.root() ? ProgressStyle::by_terminal : ProgressStyle::none));
  return args.input.empty() ? generate_one(args, a) : generate_file(args, a, ranks, screen);
}

}  // namespace ft
