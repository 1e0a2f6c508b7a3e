// Greedy answers to the prompts of a dataset: the quickest look at what a model has learnt.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "app/assembly.h"
#include "engine/generate/generator.h"

namespace ft {

struct Answer {
  std::string prompt, expected, given;
  bool right() const { return expected == given; }  // to the letter
};

// A sample's prompt is what stands before its first trained token.
class AnswerTest {
 public:
  // Of the first `count` samples, `at_once` at a time. An answer ends at an end token, or when prompt and
  // answer are as long as the longest sample.
  AnswerTest(const Dataset& data, std::int64_t count, std::int64_t at_once);

  // What the plan of the run must allow for.
  const GenerationShape& shape() const { return shape_; }
  std::vector<Answer> run(Engine& engine, Model& model, const Tokenizer& tokenizer,
                          std::vector<std::int32_t> end_tokens,
                          const std::function<void(std::int64_t done, std::int64_t of)>& progress) const;

 private:
  std::vector<Prompt> prompts_;
  std::vector<std::vector<std::int32_t>> expected_;
  GenerationShape shape_;
};

}  // namespace ft
