// Between the threads that speak with clients and the one that computes: questions wait here in their order,
// those of as many requests as there is room for, and answers grow here.
#pragma once
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "app/answers/text_stream.h"
#include "engine/generate/generator.h"
#include "engine/generate/log_probabilities.h"

namespace ft {

// A prompt of a client's and its answer. The desk's mutex guards the members below the line.
struct Question {
  Question(Prompt p, TokenChooser c, TextStream t)
      : prompt(std::move(p)), chooser(std::move(c)), text(std::move(t)) {
    prompt.chooser = &chooser;
  }
  Question(const Question&) = delete;
  Question& operator=(const Question&) = delete;

  Prompt prompt;
  TokenChooser chooser;
  std::size_t likeliest = 0;  // tokens that are told beside each, where the prompt asks for scores
  bool answered = true;       // false: only the prompt's scores are wanted
  // Used by the computing thread alone:
  TextStream text;
  std::optional<LogProbabilities> next;  // of the token that is being chosen

  enum class State { waiting, answering, stopped, at_length, failed, cut };
  // ----
  State state = State::waiting;
  std::string news;                 // text that the client has not been given
  std::vector<ScoredToken> scored;  // tokens that it has not been given
  std::int64_t tokens = 0;          // of the answer, the end token included
  std::string whole, raw;           // when it is over: the text; with special tokens
  std::string error;                // failed: why
  bool told = false;                // the client knows that it is over
  bool given_up = false;            // nobody waits for the answer any more
  // Shared by all questions of a request.
  std::shared_ptr<std::condition_variable> changed = std::make_shared<std::condition_variable>();
};
using QuestionList = std::vector<std::shared_ptr<Question>>;  // of a request

class Desk final : public PromptSource {
 public:
  explicit Desk(std::size_t most_waiting) : most_(most_waiting) {}

  // For clients, all or none of a request's. False: too many requests are waiting, or the desk is closed.
  bool ask(const QuestionList&);
  struct News {
    std::size_t index = 0;  // of the question
    std::string text;
    std::vector<ScoredToken> scored;
    Question::State state = Question::State::waiting;
    std::int64_t tokens = 0;
    std::string whole, raw, error;  // when it is over
    bool over() const { return state > Question::State::answering; }
  };
  // News of one of them since the last time; waits for some, but not longer than `patience`.
  std::optional<News> wait(const QuestionList&, std::chrono::milliseconds patience);
  void give_up(const QuestionList&);
  bool closed() const;

  // For the thread that computes.
  void wait_for_work(std::chrono::milliseconds patience);
  void close();  // nothing new is taken; what waits is not answered
  void cut();    // answers under way end where they are
  void leave();  // nobody computes any more: whoever waits is told
  std::size_t waiting() const;

  const Prompt* front() override;
  void pop() override;
  void scores(const Prompt&, std::span<const float>, std::optional<std::int32_t> given) override;
  bool token(const Prompt&, std::int32_t token) override;
  void ended(const Prompt&) override;
  void failed(const Prompt&, const UserError&) override;

 private:
  void finish(const Prompt&, Question::State, std::int64_t more_tokens = 0, const std::string& error = "");
  void cut_off(Question&);

  std::size_t most_;
  mutable std::mutex mutex_;
  std::condition_variable work_;
  std::deque<std::shared_ptr<Question>> waiting_;
  std::map<const Prompt*, std::shared_ptr<Question>> answering_;
  bool closed_ = false, cut_ = false;
};

}  // namespace ft
