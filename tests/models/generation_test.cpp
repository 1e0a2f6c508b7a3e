// Generation with the goldens' models: the cache against full sequences, answers against transformers'.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "tests/models/golden_case.h"
#include "tests/support/source.h"

namespace ft::test {
namespace {

using Ids = std::vector<std::int32_t>;

class Cached : public testing::TestWithParam<std::string> {
 protected:
  GoldenCase golden{GetParam()};
  const std::vector<Batch>& samples() const { return golden.batches[0]; }
  GenerationShape shape() const {
    GenerationShape s{{std::ssize(samples()), 0}, 0};
    for (const Batch& b : samples()) {
      s.cache.capacity = std::max(s.cache.capacity, b.tokens());
      s.tokens += b.tokens();
      if (b.source_ids.empty()) continue;
      s.cache.sources = s.cache.slots;
      s.cache.source_capacity = std::max(s.cache.source_capacity, std::ssize(b.source_ids));
      s.source_tokens += std::ssize(b.source_ids);
    }
    return s;
  }
};

INSTANTIATE_TEST_SUITE_P(Models, Cached, testing::ValuesIn(golden_names()), [](const auto& test) {
  std::string name = test.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST_P(Cached, TokenByTokenEqualsTheCompleteSequence) {
  if (golden.name.starts_with("llama-dynamic") || golden.name.starts_with("phi3-long"))
    GTEST_SKIP() << "a token's rotation depends on the length when it came";
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    GoldenRun run(golden, {.dtype = dtype, .generation = shape()});
    for (const std::int32_t first : {1, 3}) {
      Values whole;
      for (const Batch& b : samples()) {
        const Values all = run.logits(b);
        const auto vocab = static_cast<std::ptrdiff_t>(all.size()) / b.tokens();
        if (b.tokens() >= first) whole.insert(whole.end(), all.begin() + (first - 1) * vocab, all.end());
      }
      const double bound = dtype == DType::f32 ? 1e-11 : golden.routes() ? 1e-2 : 1e-3;
      EXPECT_LT(nmse(run.cached_logits(samples(), first), whole), bound);
    }
  }
}

TEST_P(Cached, OtherSequencesChangeNoBit) {
  GoldenRun run(golden, {.generation = shape()});
  Values alone;
  for (const Batch& b : samples()) {
    const Values one = run.cached_logits({b}, 2);
    alone.insert(alone.end(), one.begin(), one.end());
  }
  EXPECT_EQ(run.cached_logits(samples(), 2), alone);
}

// Expected answers are in tests/golden/generation.json.
TEST(Generation, GreedyAnswersAreTransformers) {
  const Json all = read_json(source_path("tests/golden/generation.json"));
  std::map<std::string, GoldenCase> models;
  for (const Json& c : all["greedy"]) {
    const std::string name = c["model"];
    const GoldenCase& golden = models.try_emplace(name, name).first->second;
    GenerationConfig config;
    const Json& o = c["options"];
    config.repetition_penalty = o.value("repetition_penalty", 1.0);
    config.no_repeat_ngram_size = o.value("no_repeat_ngram_size", 0);
    config.min_new_tokens = o.value("min_new_tokens", 0);
    std::vector<Prompt> prompts;
    std::vector<Ids> want;
    for (const Json& row : c["rows"]) {
      prompts.push_back({row["ids"].get<Ids>(), 16, prompts.size()});
      want.push_back(row["new"].get<Ids>());
    }
    for (const std::int64_t at_once : {1, 3, 8}) {
      const GenerationShape shape = generation_shape(prompts, at_once);
      GoldenRun run(golden, {.generation = shape});
      EXPECT_EQ(run.generate(prompts, {config, {c["end"].get<std::int32_t>()}}), want)
          << name << " " << o.dump() << " " << at_once << " at once";
    }
  }
}

// Expected answers are in tests/golden/beams.json.
TEST(Generation, BeamSearchesAreTransformers) {
  const Json all = read_json(source_path("tests/golden/beams.json"));
  std::size_t count = 0;
  for (const Json& c : all["cases"]) {
    const GoldenCase golden(c["model"]);
    const Json& o = c["options"];
    GenerationConfig config;
    config.num_beams = o.value("num_beams", 1);
    config.length_penalty = o.value("length_penalty", 1.0);
    if (o.contains("early_stopping"))
      config.early_stopping =
          o["early_stopping"].is_string() ? EarlyStopping::never : EarlyStopping::at_enough;
    config.repetition_penalty = o.value("repetition_penalty", 1.0);
    config.no_repeat_ngram_size = o.value("no_repeat_ngram_size", 0);
    config.min_new_tokens = o.value("min_new_tokens", 0);
    config.min_length = o.value("min_length", 0);
    if (o.contains("forced_eos_token_id")) config.forced_eos_token_id = o["forced_eos_token_id"];
    if (o.contains("forced_bos_token_id")) config.forced_bos_token_id = o["forced_bos_token_id"];
    const bool seq2seq = !golden.batches[0][0].source_ids.empty();
    std::vector<Prompt> prompts;
    std::vector<Ids> want;
    for (const Json& row : c["rows"]) {
      prompts.push_back({row["ids"].get<Ids>(), c["max_new_tokens"].get<std::int64_t>(), prompts.size()});
      if (seq2seq) prompts.back().source = std::exchange(prompts.back().ids, {0});
      want.push_back(row["new"].get<Ids>());
    }
    count += prompts.size();
    for (const std::int64_t at_once : {1, 6}) {
      GoldenRun run(golden, {.generation = generation_shape(prompts, at_once, config.num_beams)});
      EXPECT_EQ(run.generate(prompts, {config, c["ends"].get<Ids>()}), want)
          << golden.name << " " << o.dump() << " " << at_once << " at once";
    }
  }
  EXPECT_EQ(count, 320u);
}

// The next prompt begins with the previous prompt and its answer: only its new tokens are computed.
TEST(Generation, AKeptCacheGivesTheSameAnswers) {
  for (const char* name : {"llama-gqa", "mistral-window", "qwen35", "qwen3-next-moe"}) {
    const GoldenCase golden(name);
    const std::vector<Prompt> shape_of{{Ids(40, 5), 10, 0}};
    const auto conversation = [&](bool keep) {
      GoldenRun run(golden, {.generation = generation_shape(shape_of, 1)});
      return run.converse({{5, 6, 7, 8}, {9, 10}, {11}, {12, 13, 14}}, 6, keep);
    };
    const GoldenRun::Conversation kept = conversation(true), anew = conversation(false);
    EXPECT_EQ(kept.answers, anew.answers);
    EXPECT_EQ(kept.answers.size(), 4u);
    // each of the 10 given and of the 24 generated tokens once; an answer's last token is computed with the
    // next turn
    EXPECT_EQ(kept.computed, 10 + 24 - 1);
    EXPECT_GT(anew.computed, 2 * kept.computed);
  }
}

TEST(Generation, SamplesDoNotDependOnTheBatch) {
  const GoldenCase golden("mistral-window");
  GenerationConfig config;
  config.do_sample = true;
  config.temperature = 1.5;
  std::vector<Prompt> prompts;
  for (std::int32_t i = 0; i < 7; ++i)
    prompts.push_back({Ids(static_cast<std::size_t>(1 + 3 * i), 5 + i), 20 + i, 0});
  for (std::size_t i = 0; i < prompts.size(); ++i) prompts[i].number = i;
  std::vector<std::vector<Ids>> answers;
  for (const std::int64_t at_once : {1, 3, 7}) {
    GoldenRun run(golden, {.generation = generation_shape(prompts, at_once)});
    answers.push_back(run.generate(prompts, {config, {2}}));
    EXPECT_EQ(answers.back(), answers[0]);
  }
  EXPECT_GT(std::set<Ids>(answers[0].begin(), answers[0].end()).size(), 5u);
  config.seed = 7;
  GoldenRun run(golden, {.generation = generation_shape(prompts, 7)});
  EXPECT_NE(run.generate(prompts, {config, {2}}), answers[0]);
}

}  // namespace
}  // namespace ft::test
