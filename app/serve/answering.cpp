#include "app/serve/answering.h"

#include <algorithm>

#include "app/serve/logprobs.h"

namespace ft {
namespace {

constexpr std::chrono::milliseconds kLook{200};  // interval for checking that the client is connected

}  // namespace

Answering::Answering(Desk& desk, QuestionList questions, AnsweringRules rules, OnDone on_done)
    : desk_(desk),
      questions_(std::move(questions)),
      rules_(std::move(rules)),
      on_done_(std::move(on_done)),
      given_(questions_.size()),
      usage_{.prompt = rules_.prompt_tokens} {}

bool Answering::is_over() const {
  return std::ranges::all_of(given_, [](const Given& g) { return g.over; });
}

void Answering::done(const std::string& finish) {
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  on_done_(finish, usage_, seconds);
}

CallingAnswer Answering::calls_of(const Desk::News& n) const {
  if (rules_.tools.names.empty()) return {};
  CallingAnswer found = find_calls(n.raw, rules_.tools.names);
  if (!rules_.tools.parallel && found.calls.size() > 1) found.calls.resize(1);
  return found;
}

std::string Answering::finish_of(const Desk::News& n, const CallingAnswer& calls) {
  using enum Question::State;
  if (n.state == failed) throw ApiError(500, n.error);
  if (n.state != stopped && n.state != at_length) throw ApiError(503, "the server is shutting down");
  if (n.state == at_length) return "length";
  return calls.calls.empty() ? "stop" : "tool_calls";
}

Json Answering::logprobs_of(Given& g) {
  if (!rules_.logprobs) return {};
  const std::vector<ScoredToken> scored = std::exchange(g.scored, {});
  if (rules_.frame.chat) return chat_logprobs(scored, *rules_.tokenizer);
  return completion_logprobs(scored, *rules_.tokenizer, rules_.likeliest, g.offset);
}

std::string Answering::whole(const std::function<bool()>& gone) {
  std::vector<ReplyChoice> choices(questions_.size());
  std::string finish = "stop";
  try {
    while (!is_over()) {
      const auto n = desk_.wait(questions_, kLook);
      if (!n) {
        if (gone()) throw ApiError(499, "the client has gone");
        continue;
      }
      Given& g = given_[n->index];
      g.scored.insert(g.scored.end(), n->scored.begin(), n->scored.end());
      if (!(g.over = n->over())) continue;
      usage_.completion += n->tokens;
      CallingAnswer calls = calls_of(*n);
      ReplyChoice& c = choices[n->index];
      c.index = n->index;
      c.finish = finish_of(*n, calls);
      c.text = calls.calls.empty() ? n->whole : calls.content;
      if (!rules_.echoes.empty()) c.text = rules_.echoes[n->index] + c.text;
      c.calls = std::move(calls.calls);
      c.logprobs = logprobs_of(g);
      if (rules_.token_ids) {
        const Prompt& p = questions_[n->index]->prompt;
        c.ids = n->ids;
        c.prompt_ids = p.source.empty() ? p.ids : p.source;
      }
      finish = c.finish;
    }
  } catch (const ApiError&) {
    done("failed");
    throw;
  }
  done(finish);
  return whole_reply(rules_.frame, choices, usage_);
}

std::string Answering::first_events() {
  std::string out;
  for (std::size_t i = 0; i < questions_.size(); ++i) {
    out += first_event(rules_.frame, i);
    if (!rules_.echoes.empty() && !rules_.echoes[i].empty())
      out += piece_event(rules_.frame, {.index = i, .text = rules_.echoes[i]});
  }
  return out;
}

void Answering::add_events(const Desk::News& n, std::string& out) {
  Given& g = given_[n.index];
  g.scored.insert(g.scored.end(), n.scored.begin(), n.scored.end());
  const bool gated = !rules_.tools.names.empty();
  std::string text = gated ? g.gate.add(n.text) : n.text;
  CallingAnswer calls;
  if (n.over()) calls = calls_of(n);
  if (n.over() && gated && calls.calls.empty()) text += g.gate.finish();
  if (!text.empty() || (n.over() && !g.scored.empty()))
    out += piece_event(rules_.frame, {.index = n.index, .text = text, .logprobs = logprobs_of(g)});
  if (!n.over()) return;
  g.over = true;
  usage_.completion += n.tokens;
  const std::string finish = finish_of(n, calls);
  if (!calls.calls.empty())
    out += piece_event(rules_.frame, {.index = n.index, .text = "", .calls = std::move(calls.calls)});
  out += piece_event(rules_.frame, {.index = n.index, .text = "", .finish = finish});
}

std::optional<std::string> Answering::next(const std::function<bool()>& gone) {
  if (stage_ == Stage::over) return std::nullopt;
  if (stage_ == Stage::first) {
    stage_ = Stage::text;
    if (std::string events = first_events(); !events.empty()) return events;
  }
  std::string out;
  while (out.empty()) {
    const auto n = desk_.wait(questions_, kLook);
    if (!n) {
      if (gone()) return stage_ = Stage::over, std::nullopt;
      continue;
    }
    try {
      add_events(*n, out);
    } catch (const ApiError& e) {
      stage_ = Stage::over;
      done("failed");
      return out + error_event(e);
    }
    if (!is_over()) continue;
    stage_ = Stage::over;
    done(n->state == Question::State::at_length ? "length" : "stop");
    if (rules_.usage_at_end) out += usage_event(rules_.frame, usage_);
    return out + kLastEvent;
  }
  return out;
}

}  // namespace ft
