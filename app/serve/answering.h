// One answer on its way to its client.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "app/serve/desk.h"
#include "app/serve/reply.h"

namespace ft {

class Answering {
 public:
  using OnDone = std::function<void(const std::string& finish, const Usage&, double seconds)>;
  Answering(Desk& desk, std::shared_ptr<Question> question, ReplyFrame frame, std::int64_t prompt_tokens,
            OnDone on_done)
      : desk_(desk),
        question_(std::move(question)),
        frame_(std::move(frame)),
        prompt_tokens_(prompt_tokens),
        on_done_(std::move(on_done)) {}
  // A client that goes before its answer is complete gives it up.
  ~Answering() { desk_.give_up(*question_); }
  Answering(const Answering&) = delete;
  Answering& operator=(const Answering&) = delete;

  // Waits for all of it. Throws ApiError where there is no answer; `gone`: whether nobody waits any more.
  std::string whole(const std::function<bool()>& gone);
  // The next server-sent event; nothing after the last one.
  std::optional<std::string> next(const std::function<bool()>& gone, bool usage_at_end);

 private:
  // "stop" or "length" of an answer that is over; ApiError where something else ended it.
  std::string finish(const Desk::News&);

  Desk& desk_;
  std::shared_ptr<Question> question_;
  ReplyFrame frame_;
  std::int64_t prompt_tokens_;
  OnDone on_done_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  enum class Stage { first, text, over } stage_ = Stage::first;
};

}  // namespace ft
