#include "app/rollouts/answer_test.h"

#include <algorithm>

#include "app/rollouts/prompt.h"
#include "data/files/utf8.h"
#include "data/metrics/bleu.h"
#include "data/metrics/chrf.h"
#include "data/metrics/rouge.h"
#include "engine/generate/ranks.h"

namespace ft {
namespace {

using Ids = std::span<const std::int32_t>;

// Returns the tokens without the tokenizer's begin and end tokens.
Ids within(Ids ids, const Tokenizer& tokenizer) {
  if (!ids.empty() && tokenizer.bos() == ids.front()) ids = ids.subspan(1);
  if (!ids.empty() && tokenizer.eos() == ids.back()) ids = ids.first(ids.size() - 1);
  return ids;
}

// Returns a turn's text without a first line that is only a role's name, such as user or <|user|>.
std::string without_role(std::string_view text) {
  static constexpr std::string_view kRoles[] = {"system", "user", "assistant", "model",
                                                "human",  "tool", "developer"};
  text = strip_left(strip_right(text));
  std::string_view first = text.substr(0, text.find('\n'));
  const std::size_t line = first.size();
  if (first.starts_with("<|") && first.ends_with("|>")) first = first.substr(2, first.size() - 4);
  const bool role = std::ranges::find(kRoles, strip_right(first)) != std::end(kRoles);
  return std::string(role ? strip_left(text.substr(line)) : text);
}

}  // namespace

std::string question_of(Ids prompt, const Tokenizer& tokenizer) {
  std::string last;
  for (std::size_t begin = 0, end = 0; begin < prompt.size(); begin = end + 1) {
    end = begin;
    while (end < prompt.size() && !tokenizer.is_special(prompt[end])) ++end;
    if (end == begin) continue;
    if (std::string turn = without_role(tokenizer.decode(prompt.subspan(begin, end - begin), false));
        !turn.empty())
      last = std::move(turn);
  }
  return last;
}

AnswerTest::AnswerTest(const Dataset& data, const ModelInfo& info, std::int64_t count, std::int64_t at_once) {
  const auto most = [&](std::size_t prompt) {
    return std::max<std::int64_t>(1, data.longest() - static_cast<std::int64_t>(prompt));
  };
  for (std::int64_t i = 0; i < std::min(count, data.size()); ++i) add(data, info, i, most);
  shape_ = generation_shape(prompts_, at_once);
}

AnswerTest::AnswerTest(const Dataset& data, const ModelInfo& info, std::int64_t at_once,
                       const GenerationConfig& settings)
    : settings_(settings) {
  for (std::int64_t i = 0; i < data.size(); ++i)
    add(data, info, i, [&](std::size_t prompt) {
      const std::int64_t most = settings.most(prompt);
      if (most < 1)
        throw UserError(Exit::config, str(data.source(i), ": the prompt has ", prompt,
                                          " tokens and generation.max_length is ", *settings.max_length));
      return most;
    });
  shape_ = generation_shape(prompts_, at_once, settings.num_beams);
}

void AnswerTest::add(const Dataset& data, const ModelInfo& info, std::int64_t i, const Most& most) {
  const SampleStore::View sample = data[i];
  const auto begin = sample.labels.begin(), end = sample.labels.end();
  const bool seq2seq = data.seq2seq();
  const auto first =
      seq2seq ? begin : std::find_if(begin + 1, end, [](auto label) { return label != kIgnored; });
  const auto source = seq2seq ? sample.input_ids.end() : sample.input_ids.begin() + (first - begin);
  Prompt p = prompt_of({sample.input_ids.begin(), source}, info);
  p.max_new_tokens = most(p.ids.size());
  p.number = prompts_.size();
  prompts_.push_back(std::move(p));
  expected_.emplace_back(first, std::find(first, end, kIgnored));
}

AnswerTest AnswerTest::first(std::size_t count) const {
  AnswerTest part = *this;
  part.prompts_.resize(std::min(count, prompts_.size()));
  part.expected_.resize(part.prompts_.size());
  return part;
}

std::vector<Answer> AnswerTest::run(const Ctx& context, ParameterStore& store, Model& model,
                                    const Tokenizer& tokenizer, std::vector<std::int32_t> end_tokens,
                                    const Progress& progress) const {
  Ctx own = context;  // a copy: the generator sets train = false
  Generator generator(own, store, model, shape_, {settings_, std::move(end_tokens)});
  const std::vector<Prompt> prompts = own_prompts(prompts_, store.communicator());
  std::vector<std::vector<std::int32_t>> given(prompts_.size());
  std::int64_t begun = 0;
  generator.run(
      prompts,
      [&](std::size_t i, std::int32_t token) {
        std::vector<std::int32_t>& answer = given[prompts[i].number];
        if (answer.empty() && progress) progress(begun++, static_cast<std::int64_t>(prompts.size()));
        answer.push_back(token);
        return true;
      },
      asked_of_all(store));
  share_answers(store.communicator(), given);
  const auto text = [&](const std::vector<std::int32_t>& ids) { return tokenizer.decode(ids, true); };
  std::vector<Answer> answers;
  for (std::size_t i = 0; i < prompts_.size(); ++i) {
    const auto tokens = static_cast<std::int64_t>(given[i].size());
    const auto& prompt = prompts_[i].source.empty() ? prompts_[i].ids : prompts_[i].source;
    answers.push_back({.prompt = text(prompt),
                       .expected = text(expected_[i]),
                       .given = text(given[i]),
                       .marked = tokenizer.decode(within(prompt, tokenizer), false),
                       .question = question_of(prompt, tokenizer),
                       .tokens = std::min(tokens + 1, prompts_[i].max_new_tokens)});
  }
  return answers;
}

Measures measure(const std::vector<Answer>& answers, const std::vector<Metric>& metrics) {
  std::vector<std::string> given, expected;
  std::int64_t tokens = 0, right = 0;
  for (const Answer& a : answers) {
    given.emplace_back(strip_left(strip_right(a.given)));
    expected.emplace_back(strip_left(strip_right(a.expected)));
    tokens += a.tokens;
    right += given.back() == expected.back();
  }
  const auto mean = [&](std::int64_t sum) {
    return static_cast<double>(sum) / static_cast<double>(std::max<std::size_t>(1, answers.size()));
  };
  Measures m;
  for (const Metric metric : metrics) {
    const char* name = name_of(metric);
    if (metric == Metric::bleu) m.emplace_back(name, metrics::corpus_bleu(given, expected).score);
    if (metric == Metric::chrf) m.emplace_back(name, metrics::corpus_chrf(given, expected));
    if (metric == Metric::exact_match) m.emplace_back(name, mean(right));
    if (metric != Metric::rouge) continue;
    const metrics::Rouge rouge = metrics::mean_rouge(given, expected);
    m.insert(m.end(), {{"rouge1", rouge.rouge1},
                       {"rouge2", rouge.rouge2},
                       {"rougeL", rouge.rougeL},
                       {"rougeLsum", rouge.rougeLsum}});
  }
  m.emplace_back("gen_len", mean(tokens));
  return m;
}

}  // namespace ft
