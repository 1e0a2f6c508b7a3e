// Between the threads that speak with clients and the one that computes: questions wait here in their order,
// as many as there is room for, and answers grow here.
#pragma once
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "app/answers/text_stream.h"
#include "engine/generate/generator.h"

namespace ft {

// What a client asks, and what becomes of it. The desk's mutex guards what is below the line.
struct Question {
  Question(Prompt p, TokenChooser c, TextStream t)
      : prompt(std::move(p)), chooser(std::move(c)), text(std::move(t)) {
    prompt.chooser = &chooser;
  }
  Question(const Question&) = delete;
  Question& operator=(const Question&) = delete;

  Prompt prompt;
  TokenChooser chooser;
  TextStream text;  // of the thread that computes

  enum class State { waiting, answering, stopped, at_length, failed, cut };
  // ----
  State state = State::waiting;
  std::string news;         // text that the client has not been given
  std::int64_t tokens = 0;  // of the answer, the end token included
  std::string error;        // failed: why
  bool given_up = false;    // nobody waits for the answer any more
  std::condition_variable changed;
};

class Desk final : public PromptSource {
 public:
  explicit Desk(std::size_t most_waiting) : most_(most_waiting) {}

  // For clients. False: too many are waiting, or the desk is closed.
  bool ask(const std::shared_ptr<Question>&);
  struct News {
    std::string text;
    Question::State state;
    std::int64_t tokens;
    std::string error;
    bool over() const { return state > Question::State::answering; }
  };
  // What is new since the last time; waits for something, but not longer than `patience`.
  News wait(Question&, std::chrono::milliseconds patience);
  void give_up(Question&);
  bool closed() const;

  // For the thread that computes.
  void wait_for_work(std::chrono::milliseconds patience);
  void close();  // nothing new is taken; what waits is not answered
  void cut();    // answers under way end where they are
  void leave();  // nobody computes any more: whoever waits is told
  std::size_t waiting() const;

  const Prompt* front() override;
  void pop() override;
  bool token(const Prompt&, std::int32_t token) override;
  void ended(const Prompt&) override;
  void failed(const Prompt&, const UserError&) override;

 private:
  void finish(const Prompt&, Question::State, std::int64_t more_tokens = 0, const std::string& error = "");

  std::size_t most_;
  mutable std::mutex mutex_;
  std::condition_variable work_;
  std::deque<std::shared_ptr<Question>> waiting_;
  std::map<const Prompt*, std::shared_ptr<Question>> answering_;
  bool closed_ = false, cut_ = false;
};

}  // namespace ft
