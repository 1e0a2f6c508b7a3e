#include "app/serve/desk.h"

namespace ft {

bool Desk::ask(const std::shared_ptr<Question>& q) {
  const std::lock_guard lock(mutex_);
  if (closed_ || waiting_.size() >= most_) return false;
  waiting_.push_back(q);
  work_.notify_one();
  return true;
}

Desk::News Desk::wait(Question& q, std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  q.changed.wait_for(lock, patience, [&] { return !q.news.empty() || q.state > Question::State::answering; });
  return {std::exchange(q.news, ""), q.state, q.tokens, q.error};
}

void Desk::give_up(Question& q) {
  const std::lock_guard lock(mutex_);
  q.given_up = true;
}

bool Desk::closed() const {
  const std::lock_guard lock(mutex_);
  return closed_;
}

std::size_t Desk::waiting() const {
  const std::lock_guard lock(mutex_);
  return waiting_.size();
}

void Desk::wait_for_work(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  work_.wait_for(lock, patience, [&] { return !waiting_.empty(); });
}

void Desk::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  for (const auto& q : waiting_) {
    q->state = Question::State::cut;
    q->changed.notify_all();
  }
  waiting_.clear();
}

void Desk::cut() {
  const std::lock_guard lock(mutex_);
  cut_ = true;
}

void Desk::leave() {
  close();
  const std::lock_guard lock(mutex_);
  for (const auto& [prompt, q] : answering_) {
    q->state = Question::State::cut;
    q->changed.notify_all();
  }
}

const Prompt* Desk::front() {
  const std::lock_guard lock(mutex_);
  while (!waiting_.empty() && waiting_.front()->given_up) waiting_.pop_front();
  return waiting_.empty() ? nullptr : &waiting_.front()->prompt;
}

void Desk::pop() {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Question> q = std::move(waiting_.front());
  waiting_.pop_front();
  q->state = Question::State::answering;
  answering_.emplace(&q->prompt, std::move(q));
}

bool Desk::token(const Prompt& p, std::int32_t token) {
  Question& q = *answering_.at(&p);  // only this thread changes answering_
  std::string more = q.text.add(token);
  const std::lock_guard lock(mutex_);
  ++q.tokens;
  q.news += more;
  if (!more.empty()) q.changed.notify_all();
  return !q.text.stopped() && !q.given_up && !cut_;
}

void Desk::ended(const Prompt& p) {
  using enum Question::State;
  Question& q = *answering_.at(&p);
  bool over_early = false;
  {
    const std::lock_guard lock(mutex_);
    over_early = cut_ || q.given_up;
  }
  if (q.text.stopped()) return finish(p, stopped);
  if (q.tokens == p.max_new_tokens) return finish(p, at_length);
  if (over_early) return finish(p, cut);
  finish(p, stopped, 1);  // the end token
}

void Desk::failed(const Prompt& p, const UserError& e) { finish(p, Question::State::failed, 0, e.what()); }

void Desk::finish(const Prompt& p, Question::State state, std::int64_t more_tokens,
                  const std::string& error) {
  const auto at = answering_.find(&p);
  const std::shared_ptr<Question> q = at->second;
  std::string rest = q->text.finish();
  const std::lock_guard lock(mutex_);
  answering_.erase(at);
  q->news += rest;
  q->state = state;
  q->tokens += more_tokens;
  q->error = error;
  q->changed.notify_all();
}

}  // namespace ft
