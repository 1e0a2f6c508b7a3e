#include "app/serve/desk.h"

#include <algorithm>
#include <utility>

namespace ft {

// Adds the questions of a request. They are consecutive in the queue and share the variable that wakes their
// client.
bool Desk::ask(const QuestionList& questions) {
  const std::lock_guard lock(mutex_);
  std::size_t requests = 0;
  const std::condition_variable* last = nullptr;
  for (const auto& q : waiting_) {
    requests += q->changed.get() != last;
    last = q->changed.get();
  }
  if (closed_ || requests >= most_) return false;
  for (const auto& q : questions) {
    q->changed = questions[0]->changed;
    waiting_.push_back(q);
  }
  work_.notify_one();
  return true;
}

std::optional<Desk::News> Desk::wait(const QuestionList& questions, std::chrono::milliseconds patience) {
  const auto news = [](const std::shared_ptr<Question>& q) {
    return !q->news.empty() || (q->state > Question::State::answering && !q->told);
  };
  std::unique_lock lock(mutex_);
  questions[0]->changed->wait_for(lock, patience, [&] { return std::ranges::any_of(questions, news); });
  const auto at = std::ranges::find_if(questions, news);
  if (at == questions.end()) return std::nullopt;
  Question& q = **at;
  News n{.index = static_cast<std::size_t>(at - questions.begin()),
         .text = std::exchange(q.news, ""),
         .scored = std::exchange(q.scored, {}),
         .state = q.state,
         .tokens = q.tokens};
  if (!n.over()) return n;
  q.told = true;
  n.whole = q.whole;
  n.raw = q.raw;
  n.error = q.error;
  n.ids = q.ids;
  return n;
}

void Desk::give_up(const QuestionList& questions) {
  const std::lock_guard lock(mutex_);
  for (const auto& q : questions) q->given_up = true;
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

void Desk::cut_off(Question& q) {
  q.state = Question::State::cut;
  q.changed->notify_all();
}

void Desk::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  for (const auto& q : waiting_) cut_off(*q);
  waiting_.clear();
}

void Desk::cut() {
  const std::lock_guard lock(mutex_);
  cut_ = true;
}

void Desk::leave() {
  close();
  const std::lock_guard lock(mutex_);
  for (const auto& [prompt, q] : answering_) cut_off(*q);
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

void Desk::scores(const Prompt& p, std::span<const float> scores, std::optional<std::int32_t> given) {
  Question& q = *answering_.at(&p);  // only this thread changes answering_
  LogProbabilities next(scores);
  if (!given) {
    q.next.emplace(std::move(next));
    return;
  }
  ScoredToken scored = next.of(*given, q.likeliest);
  const std::lock_guard lock(mutex_);
  q.scored.push_back(std::move(scored));
}

bool Desk::token(const Prompt& p, std::int32_t token) {
  Question& q = *answering_.at(&p);
  if (!q.answered) return false;
  std::string more;
  std::optional<ScoredToken> scored;
  try {
    more = q.text.add(token);
    if (q.next) scored = q.next->of(token, q.likeliest);
  } catch (const std::exception& e) {  // an error of this answer only
    const std::lock_guard lock(mutex_);
    q.error = e.what();
    return false;
  }
  const std::lock_guard lock(mutex_);
  ++q.tokens;
  if (q.keeps_ids) q.ids.push_back(token);
  q.news += more;
  if (scored) q.scored.push_back(std::move(*scored));
  if (!more.empty()) q.changed->notify_all();
  return !q.text.stopped() && !q.given_up && !cut_;
}

// Counts as a token of the answer in ended(). Its probability is of interest only beside its id.
void Desk::end_token(const Prompt& p, std::int32_t token) {
  Question& q = *answering_.at(&p);
  if (!q.keeps_ids) return;
  const std::lock_guard lock(mutex_);
  q.ids.push_back(token);
  if (q.next) q.scored.push_back(q.next->of(token, q.likeliest));
}

void Desk::ended(const Prompt& p) {
  using enum Question::State;
  Question& q = *answering_.at(&p);
  bool over_early = false, broken = false;
  {
    const std::lock_guard lock(mutex_);
    over_early = cut_ || q.given_up;
    broken = !q.error.empty();
  }
  if (broken) return finish(p, failed, 0, q.error);
  if (!q.answered) return finish(p, at_length);
  if (q.text.stopped()) return finish(p, stopped);
  if (q.tokens == p.max_new_tokens) return finish(p, at_length);
  if (over_early) return finish(p, cut);
  finish(p, stopped, 1);  // counts the end token
}

void Desk::failed(const Prompt& p, const UserError& e) { finish(p, Question::State::failed, 0, e.what()); }

void Desk::finish(const Prompt& p, Question::State state, std::int64_t more_tokens,
                  const std::string& error) {
  const auto at = answering_.find(&p);
  const std::shared_ptr<Question> q = at->second;
  std::string rest, whole, raw, wrong = error;
  try {
    rest = q->text.finish();
    whole = q->text.whole();
    raw = q->text.raw();
  } catch (const std::exception& e) {
    state = Question::State::failed;
    wrong = e.what();
  }
  const std::lock_guard lock(mutex_);
  answering_.erase(at);
  q->news += rest;
  q->whole = std::move(whole);
  q->raw = std::move(raw);
  q->state = state;
  q->tokens += more_tokens;
  q->error = wrong;
  q->changed->notify_all();
}

}  // namespace ft
