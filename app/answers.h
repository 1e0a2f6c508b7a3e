// Greedy answers to the prompts of a dataset: the quickest look at what a model has learnt. Every new token
// runs the whole sequence again, which is fine for short answers; generation proper keeps keys and values.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "app/assembly.h"

namespace ft {

struct Answer {
  std::string prompt, expected, given;
  bool right() const { return expected == given; }  // to the letter
};

struct AnswerRequest {
  const Dataset& data;
  const Tokenizer* tokenizer;  // not null where there are answers
  std::int64_t count = 0;      // the first samples of data
  std::int64_t at_once = 1;    // sequences computed together
};

// What the plan of the run must allow for.
BatchShape answer_shape(const AnswerRequest& request);

// A sample's prompt is what stands before its first trained token. Ends at the end token, or when the answer
// is as long as the longest sample.
std::vector<Answer> greedy_answers(Engine& engine, Model& model, const AnswerRequest& request,
                                   const std::function<void(std::int64_t done, std::int64_t of)>& progress);

}  // namespace ft
