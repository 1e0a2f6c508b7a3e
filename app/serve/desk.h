// The meeting point of the clients' threads and the computing thread. A limited number of requests wait here,
// in order, and their answers grow here.
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

// A client's prompt and its answer. The desk's mutex guards the members below the line.
struct Question {
  Question(Prompt p, TokenChooser c, TextStream t)
      : prompt(std::move(p)), chooser(std::move(c)), text(std::move(t)) {
    prompt.chooser = &chooser;
  }
  Question(const Question&) = delete;
  Question& operator=(const Question&) = delete;

  Prompt prompt;
  TokenChooser chooser;
  std::size_t likeliest = 0;  // likeliest tokens to report, if the prompt asks for scores
  bool answered = true;       // false: the client wants only the prompt's scores
  bool keeps_ids = false;     // the client wants the answer's token ids, the end token included
  // The model that answers, which keeps its adapter and its tokenizer while the question exists.
  std::shared_ptr<const void> voice;
  // Used only by the computing thread:
  TextStream text;
  std::optional<LogProbabilities> next;  // for the token that is being chosen

  enum class State { waiting, answering, stopped, at_length, failed, cut };
  // ----
  State state = State::waiting;
  std::string news;                 // text that the client has not got yet
  std::vector<ScoredToken> scored;  // tokens that the client has not got yet
  std::int64_t tokens = 0;          // tokens of the answer, the end token included
  std::string whole, raw;           // at the end: the text; the text with special tokens
  std::vector<std::int32_t> ids;    // tokens of the answer, if it keeps them
  std::string error;                // the reason, if it failed
  bool told = false;                // the client has been told the end
  bool given_up = false;            // the client has disconnected
  // Wakes the client. Shared by all questions of a request.
  std::shared_ptr<std::condition_variable> changed = std::make_shared<std::condition_variable>();
};
using QuestionList = std::vector<std::shared_ptr<Question>>;  // the questions of a request

class Desk final : public PromptSource {
 public:
  explicit Desk(std::size_t most_waiting) : most_(most_waiting) {}

  // Adds all questions of a request or none; called by clients' threads. Returns false if too many requests
  // wait or the desk is closed.
  bool ask(const QuestionList&);
  struct News {
    std::size_t index = 0;  // index of the question
    std::string text;
    std::vector<ScoredToken> scored;
    Question::State state = Question::State::waiting;
    std::int64_t tokens = 0;
    std::string whole, raw, error;  // set at the end
    std::vector<std::int32_t> ids;  // at the end, if the question keeps them
    bool over() const { return state > Question::State::answering; }
  };
  // Returns the news of one of the questions since the last call. Waits up to `patience` for news.
  std::optional<News> wait(const QuestionList&, std::chrono::milliseconds patience);
  void give_up(const QuestionList&);
  bool closed() const;

  // For the computing thread:
  void wait_for_work(std::chrono::milliseconds patience);
  void close();  // refuses new questions and cuts off waiting ones
  void cut();    // ends the current answers early
  void leave();  // no thread computes any more: wakes all clients
  std::size_t waiting() const;

  const Prompt* front() override;
  void pop() override;
  void scores(const Prompt&, std::span<const float>, std::optional<std::int32_t> given) override;
  bool token(const Prompt&, std::int32_t token) override;
  void end_token(const Prompt&, std::int32_t token) override;
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
