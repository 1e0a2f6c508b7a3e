// Sends the answers of a request to its client.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/serve/desk.h"
#include "app/serve/messages.h"
#include "app/serve/reply.h"

namespace ft {

// The form of a reply, as the request asked for it.
struct AnsweringRules {
  ReplyFrame frame;
  const Tokenizer* tokenizer = nullptr;
  std::vector<std::string> echoes;  // texts before each question's answers; empty: none
  bool logprobs = false, likeliest = false;
  bool token_ids = false;
  ToolUse tools;
  bool usage_at_end = false;
  std::int64_t prompt_tokens = 0;
};

class Answering {
 public:
  using OnDone = std::function<void(const std::string& finish, const Usage&, double seconds)>;
  Answering(Desk& desk, QuestionList questions, AnsweringRules rules, OnDone on_done);
  // Gives up unfinished answers: their client has disconnected.
  ~Answering() { desk_.give_up(questions_); }
  Answering(const Answering&) = delete;
  Answering& operator=(const Answering&) = delete;

  // Waits for all answers and returns the reply. Throws ApiError if there is no answer. `gone`: the client
  // has disconnected.
  std::string whole(const std::function<bool()>& gone);
  // Returns the next server-sent events; nothing after the last one.
  std::optional<std::string> next(const std::function<bool()>& gone);

 private:
  // The progress of one answer.
  struct Given {
    std::vector<ScoredToken> scored;  // tokens that are not sent yet
    std::int64_t offset = 0;          // characters before them
    CallGate gate;
    bool over = false;
  };
  bool is_over() const;
  // Returns "stop", "length" or "tool_calls". Throws ApiError if the answer ended for another reason.
  static std::string finish_of(const Desk::News&, const CallingAnswer&);
  CallingAnswer calls_of(const Desk::News&) const;
  Json logprobs_of(Given&);
  // Adds the events that report the news to the stream. Throws ApiError like finish_of().
  void add_events(const Desk::News&, std::string& out);
  std::string first_events();
  void done(const std::string& finish);

  Desk& desk_;
  QuestionList questions_;
  AnsweringRules rules_;
  OnDone on_done_;
  std::vector<Given> given_;
  Usage usage_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  enum class Stage { first, text, over } stage_ = Stage::first;
};

}  // namespace ft
