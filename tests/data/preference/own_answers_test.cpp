// Micro-batches of examples whose answers models give.
#include "data/preference/own_answers.h"

#include <gtest/gtest.h>

namespace ft {
namespace {

using Ids = std::vector<std::int32_t>;

// Six micro-batches of two sequences. Sequence s of batch i has the prompt 10 i + 1, ..., 10 i + 1 + s, and
// the answer 7 8; the second sequence of batch 3 has no target, and `more` tokens behind the answer.
class Examples final : public BatchSource {
 public:
  explicit Examples(std::int32_t more = 0) : more_(more) {}
  std::int64_t batches_per_epoch() const override { return 6; }
  Batch batch(std::int64_t, std::int64_t i) const override {
    Batch b;
    b.starts = {0};
    for (std::int32_t s = 0; s < 2; ++s) {
      const auto begin = std::int32_t(b.tokens());
      for (std::int32_t t = 0; t <= s; ++t) b.input_ids.push_back(std::int32_t(10 * i) + 1 + t);
      b.input_ids.insert(b.input_ids.end(), {7, 8});
      if (i == 3 && s == 1) b.input_ids.insert(b.input_ids.end(), std::size_t(more_), 9);
      const auto length = std::int32_t(b.tokens()) - begin;
      for (std::int32_t t = 0; t < length; ++t) b.positions.push_back(t);
      if (i != 3 || s == 0) {
        b.target_rows.insert(b.target_rows.end(), {begin + s, begin + s + 1});
        b.targets.insert(b.targets.end(), {7, 8});
      }
      b.starts.push_back(std::int32_t(b.tokens()));
    }
    return b;
  }
  BatchShape shape(std::int64_t epoch, std::int64_t i) const override { return shape_of(batch(epoch, i)); }

 private:
  std::int32_t more_;
};

OwnAnswersOptions options(double share, Author rest = Author::data) {
  return {.share = share, .rest = rest, .rows = 2, .step = 4, .answer = 5, .longest = 6, .seed = 3};
}

TEST(OwnAnswers, QuestionsAreThePromptsOfAStep) {
  const Examples examples;
  const OwnAnswers own(examples, options(1));
  EXPECT_EQ(own.longest_prompt(), 2);
  const std::vector<OwnPrompt> first = own.questions(0, Author::policy),
                               second = own.questions(1, Author::policy);
  ASSERT_EQ(first.size(), 7u) << "four micro-batches; a sequence without targets is not answered";
  ASSERT_EQ(second.size(), 4u) << "the rest of the epoch";
  EXPECT_EQ(first[0].prompt, (Ids{1}));
  EXPECT_EQ(first[1].prompt, (Ids{1, 2}));
  EXPECT_EQ(first[6].prompt, (Ids{31}));
  EXPECT_EQ(first[0].most, 5);
  EXPECT_EQ(first[1].most, 4) << "prompt and answer have six tokens";
  EXPECT_EQ(first[6].number, 6);
  EXPECT_EQ(second[0].number, 8) << "numbers are those of the sequences";
  EXPECT_EQ(own.questions(2, Author::policy)[0].number, 12) << "the next epoch has others";
  EXPECT_TRUE(own.questions(0, Author::teacher).empty());
}

TEST(OwnAnswers, BatchesHaveTheAnswersThatWerePut) {
  const Examples examples;
  OwnAnswers own(examples, options(1));
  own.put(0, {{5}, {6, 2}, {5}, {5}, {5}, {5}, {9, 9, 9}}, {});
  const Batch b = own.batch(0, 0);
  EXPECT_EQ(b.input_ids, (Ids{1, 5, 1, 2, 6, 2}));
  EXPECT_EQ(b.positions, (Ids{0, 1, 0, 1, 2, 3}));
  EXPECT_EQ(b.starts, (Ids{0, 2, 6}));
  EXPECT_EQ(b.target_rows, (Ids{0, 3, 4}));
  EXPECT_EQ(b.targets, (Ids{5, 6, 2}));
  const Batch last = own.batch(0, 3);
  EXPECT_EQ(last.input_ids, (Ids{31, 9, 9, 9, 31, 32, 7, 8})) << "an unanswered sequence stays";
  EXPECT_EQ(last.targets, (Ids{9, 9, 9}));
  EXPECT_EQ(own.shape(0, 3).targets, 3);
  EXPECT_EQ(own.shape(0, 3).longest, 4);
  EXPECT_THROW(own.batch(0, 4), InternalError) << "of the next step";
  EXPECT_THROW(own.batch(1, 0), InternalError) << "of the next epoch";
  EXPECT_THROW(own.put(1, {{5}, {5}, {5}, {5}, {5}}, {}), InternalError) << "there are four questions";
}

TEST(OwnAnswers, NoBatchIsLargerThanTheLargest) {
  const Examples examples;
  const OwnAnswers own(examples, options(1));
  const BatchShape most = own.largest();
  EXPECT_EQ(most.tokens, 12);
  EXPECT_EQ(most.targets, 10);
  EXPECT_EQ(most.longest, 6);
  EXPECT_EQ(most.sequences, 2);
}

TEST(OwnAnswers, NoBatchWithALongUnansweredSequenceIsLargerThanTheLargest) {
  const Examples examples(9);  // the sequence without a target has 13 tokens; prompt and answer have 6
  OwnAnswers own(examples, options(1));
  const BatchShape most = own.largest();
  EXPECT_EQ(most.longest, 13);
  for (std::int64_t step = 0; step < 2; ++step) {
    OwnAnswers::Tokens answers;
    for (const OwnPrompt& q : own.questions(step, Author::policy))
      answers.emplace_back(std::size_t(q.most), 5);
    own.put(step, answers, {});
    for (std::int64_t i = step * 4; i < std::min<std::int64_t>(6, step * 4 + 4); ++i) {
      const BatchShape one = own.shape(0, i);
      EXPECT_LE(one.tokens, most.tokens);
      EXPECT_LE(one.targets, most.targets);
      EXPECT_LE(one.sequences, most.sequences);
      EXPECT_LE(one.longest, most.longest);
    }
  }
}

TEST(OwnAnswers, AShareOfTheBatchesIsThePolicys) {
  const Examples examples;
  const OwnAnswers own(examples, options(0.3)), taught(examples, options(0.3, Author::teacher)),
      none(examples, options(0));
  int policys = 0;
  for (std::int64_t epoch = 0; epoch < 500; ++epoch)
    for (std::int64_t i = 0; i < 6; ++i) {
      const bool drawn = own.author(epoch, i) == Author::policy;
      policys += drawn;
      EXPECT_EQ(own.author(epoch, i), drawn ? Author::policy : Author::data);
      EXPECT_EQ(taught.author(epoch, i), drawn ? Author::policy : Author::teacher) << "the same draw";
      EXPECT_EQ(none.author(epoch, i), Author::data);
    }
  EXPECT_NEAR(policys / 3000.0, 0.3, 0.03);
}

TEST(OwnAnswers, BothModelsAnswerTheirBatchesAndTheDataTheRest) {
  const Examples examples;
  OwnAnswers taught(examples, options(0.5, Author::teacher)), own(examples, options(0.5));
  for (std::int64_t step = 0; step < 8; ++step) {
    const auto asked = taught.questions(step, Author::policy), told = taught.questions(step, Author::teacher);
    taught.put(step, OwnAnswers::Tokens(asked.size(), Ids{50}), OwnAnswers::Tokens(told.size(), Ids{60}));
    own.put(step, OwnAnswers::Tokens(asked.size(), Ids{50}), {});
    const std::int64_t epoch = step / 2, begin = step % 2 * 4;
    for (std::int64_t i = begin; i < std::min<std::int64_t>(6, begin + 4); ++i) {
      const bool drawn = own.author(epoch, i) == Author::policy;
      EXPECT_EQ(taught.batch(epoch, i).targets[0], drawn ? 50 : 60);
      EXPECT_EQ(own.batch(epoch, i).targets[0], drawn ? 50 : 7);
      EXPECT_EQ(own.shape(epoch, i).tokens, own.batch(epoch, i).tokens());
    }
  }
}

}  // namespace
}  // namespace ft
