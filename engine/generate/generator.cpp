#include "engine/generate/generator.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

#include "engine/core/error.h"
#include "engine/generate/beam_search.h"
#include "engine/model/invocation.h"
#include "engine/ops/ops.h"

namespace ft {
namespace {

constexpr std::int64_t kPassTokens = 2048;  // prompt tokens in one pass, unless a single prompt is longer

struct PassTokens {
  std::int64_t all = 0, longest = 0;
};

// Returns the most prompt tokens that one pass takes.
PassTokens tokens_of_pass(std::span<const Prompt> prompts, std::vector<std::int32_t> Prompt::*ids,
                          std::int64_t at_once) {
  PassTokens t;
  for (const Prompt& p : prompts) {
    const auto length = static_cast<std::int64_t>((p.*ids).size());
    t.longest = std::max(t.longest, length);
    t.all += length;
  }
  t.all = std::max(t.longest, std::min({t.all, kPassTokens, at_once * t.longest}));
  return t;
}

// A list of prompts, each answered once.
class Listed final : public PromptSource {
 public:
  Listed(std::span<const Prompt> prompts, const Generator::OnToken& on_token)
      : prompts_(prompts), on_token_(on_token) {}
  const Prompt* front() override { return next_ < prompts_.size() ? &prompts_[next_] : nullptr; }
  void pop() override { ++next_; }
  bool token(const Prompt& p, std::int32_t token) override {
    return on_token_(static_cast<std::size_t>(&p - prompts_.data()), token);
  }
  void ended(const Prompt&) override {}
  void failed(const Prompt&, const UserError& e) override { throw e; }

 private:
  std::span<const Prompt> prompts_;
  const Generator::OnToken& on_token_;
  std::size_t next_ = 0;
};

// Appends `count` rows with this adapter.
void add_rows(std::vector<AdapterRows>& all, std::int64_t count, std::int32_t adapter) {
  const std::int64_t begin = all.empty() ? 0 : all.back().end;
  if (!all.empty() && all.back().adapter == adapter)
    all.back().end += count;
  else
    all.push_back({begin, begin + count, adapter});
}

}  // namespace

GenerationShape generation_shape(std::span<const Prompt> prompts, std::int64_t at_once, std::int64_t beams) {
  GenerationShape s;
  at_once = std::min(at_once, static_cast<std::int64_t>(prompts.size()));
  for (const Prompt& p : prompts)
    s.cache.capacity = std::max(s.cache.capacity, static_cast<std::int64_t>(p.ids.size()) + p.max_new_tokens);
  s.cache.slots = at_once * beams;
  s.tokens = std::max(tokens_of_pass(prompts, &Prompt::ids, at_once).all, s.cache.slots);
  const PassTokens sources = tokens_of_pass(prompts, &Prompt::source, at_once);
  if (sources.all == 0) return s;
  s.cache.sources = at_once;
  s.cache.source_capacity = sources.longest;
  s.source_tokens = sources.all;
  return s;
}

Generator::Generator(Ctx& context, ParameterStore& store, Model& model, GenerationShape shape,
                     TokenChooser chooser)
    : context_(context),
      store_(store),
      model_(model),
      decoding_(*model.decoding()),
      shape_(shape),
      chooser_(std::move(chooser)),
      memory_(context.saved),
      cache_(decoding_.make_kv_cache(context.saved, shape.cache, context.dtype)),
      logits_(context.saved.take({shape.logit_rows(), model.vocab_size()}, context.dtype)),
      width_(static_cast<std::int32_t>(chooser_.config().num_beams)) {
  require(shape.cache.slots % width_ == 0, "beams were not planned for");
  context.train = false;
  for (auto slot = static_cast<std::int32_t>(shape.cache.slots); slot > 0;) free_.push_back(slot -= width_);
  answers_.reserve(free_.size());
  scores_.resize(static_cast<std::size_t>(logits_.numel()));
  if (context.dtype != DType::f32) narrow_.resize(scores_.size());
}

std::unique_ptr<Decoding> Generator::decode(const Prompt& p, Decoding::OnToken on_token) const {
  const TokenChooser& chooser = p.chooser ? *p.chooser : chooser_;
  if (width_ > 1) return std::make_unique<BeamSearch>(chooser, p, std::move(on_token));
  return std::make_unique<SingleBranch>(chooser, p, std::move(on_token));
}

// As in PEFT, the prompt alone decides: tokens of the answer invoke nothing.
std::int32_t Generator::acts_from(const Prompt& p) const {
  const std::span<const std::int32_t> tokens = model_.invocation();
  constexpr std::int32_t kNever = std::numeric_limits<std::int32_t>::max();
  if (tokens.empty()) return kNever;
  const std::int64_t place = last_place(p.ids, tokens);
  return place < std::ssize(p.ids) ? static_cast<std::int32_t>(place) : kNever;
}

bool Generator::fits(const Prompt& p) const {
  const auto length = static_cast<std::int64_t>(p.ids.size());
  const auto source = static_cast<std::int64_t>(p.source.size());
  if (p.prompt_scores && (shape_.scored == 0 || source > 0)) return false;
  return length > 0 && length + p.max_new_tokens <= shape_.cache.capacity && length <= shape_.tokens &&
         source <= shape_.cache.source_capacity && (source > 0) == (shape_.cache.sources > 0);
}

std::vector<Generator::Answer*> Generator::admit(PromptSource& prompts) {
  std::vector<Answer*> fresh;
  std::int64_t tokens = 0, source_tokens = 0;
  for (const Prompt* next = nullptr; !free_.empty() && (next = prompts.front()) != nullptr;) {
    const Prompt& p = *next;
    require(fits(p), "a prompt that was not planned for");
    const auto length = static_cast<std::int64_t>(p.ids.size());
    const auto source = static_cast<std::int64_t>(p.source.size());
    if (tokens > 0 && (tokens + length > shape_.tokens || source_tokens + source > shape_.source_tokens))
      break;
    prompts.pop();
    tokens += length;
    source_tokens += source;
    Answer a{.prompt = &p,
             .decoding = decode(p, [&](std::int32_t token) { return prompts.token(p, token); }),
             .slots = std::vector<std::int32_t>(static_cast<std::size_t>(width_)),
             .at = {free_.back()},
             .acts_from = acts_from(p)};
    std::iota(a.slots.begin(), a.slots.end(), free_.back());
    if (keeps_ && a.at[0] == 0) {  // the last token is always computed, for its scores
      const auto same = std::mismatch(kept_.begin(), kept_.end(), p.ids.begin(), p.ids.end() - 1).first;
      // Adapters acted on the cached tokens from one place on, and will on these from another.
      const std::int32_t usable =
          std::min({static_cast<std::int32_t>(same - kept_.begin()), kept_acts_from_, a.acts_from});
      if (decoding_.forgets() || usable == std::ssize(kept_)) a.held = usable;
    }
    free_.pop_back();
    answers_.push_back(std::move(a));
    fresh.push_back(&answers_.back());  // valid: answers_ never grows beyond its reserved capacity
  }
  return fresh;
}

void Generator::download(std::int64_t sequences) {
  const Tensor rows = logits_.slice(0, sequences);
  if (rows.dtype == DType::f32) return context_.ops.download(scores_.data(), rows);
  context_.ops.download(narrow_.data(), rows);
  const bool half = rows.dtype == DType::f16;
  std::transform(narrow_.begin(), narrow_.begin() + rows.numel(), scores_.begin(),
                 [half](std::uint16_t bits) { return half ? to_float(f16{bits}) : to_float(bf16{bits}); });
}

void Generator::place(Answer& a) {
  const std::span<const Branch> branches = a.decoding->branches();
  const std::vector<std::int32_t> before = std::move(a.at);
  std::vector<std::int32_t> unused = a.slots;
  a.at.assign(branches.size(), -1);
  for (std::size_t i = 0; i < branches.size(); ++i)
    if (std::erase(unused, before[branches[i].parent]) > 0) a.at[i] = before[branches[i].parent];
  for (std::size_t i = 0; i < branches.size(); ++i) {
    if (a.at[i] >= 0) continue;
    a.at[i] = unused.back();
    unused.pop_back();
    copy_slot(context_.ops, cache_, before[branches[i].parent], a.at[i], a.held);
  }
}

void Generator::encode(const std::vector<Answer*>& fresh) {
  Sources s;
  std::vector<AdapterRows> rows;
  for (const Answer* a : fresh) {
    const std::vector<std::int32_t>& ids = a->prompt->source;
    s.ids.insert(s.ids.end(), ids.begin(), ids.end());
    s.starts.push_back(static_cast<std::int32_t>(s.ids.size()));
    s.places.push_back(place_of(*a));
    add_rows(rows, std::ssize(ids), a->prompt->adapter);
  }
  if (on_rows_) on_rows_(rows);
  if (s.places.empty()) {
    s.ids = {0};
    s.starts = {0, 1};
  }
  model_.encoder()->encode(context_, store_, cache_, s);
}

void Generator::extend(const std::vector<Answer*>& answers, PromptSource& prompts) {
  Continuation c;
  std::vector<AdapterRows> rows;
  const std::int64_t turn = decoding_.keys_turn_at();
  for (Answer* a : answers) {
    if (a->prompt->prompt_scores && a->held == 0) score_prompt(*a, prompts);
    const std::span<const Branch> branches = a->decoding->branches();
    if (0 < a->held && a->held <= turn && turn < std::ssize(branches[0].ids)) remake(*a);
    for (std::size_t i = 0; i < branches.size(); ++i) {
      const std::vector<std::int32_t>& ids = branches[i].ids;
      c.input_ids.insert(c.input_ids.end(), ids.begin() + a->held, ids.end());
      add_rows(rows, c.rows() - c.starts.back(), a->prompt->adapter);
      c.starts.push_back(static_cast<std::int32_t>(c.rows()));
      c.slots.push_back(a->at[i]);
      c.past.push_back(a->held);
      c.acts_from.push_back(a->acts_from);
      if (a->prompt->source.empty()) continue;
      c.sources.push_back(place_of(*a));
      c.source_lengths.push_back(static_cast<std::int32_t>(a->prompt->source.size()));
    }
    a->held = static_cast<std::int32_t>(branches[0].ids.size());
    if (keeps_ && a->at[0] == 0) {
      kept_ = branches[0].ids;
      kept_acts_from_ = a->acts_from;
    }
  }
  tokens_computed_ += c.rows();
  if (on_rows_) on_rows_(rows);
  decoding_.extend(context_, store_, cache_, c, logits_.slice(0, c.sequences()));
  download(c.sequences());
  const auto V = static_cast<std::size_t>(model_.vocab_size());
  float* scores = scores_.data();
  for (Answer* a : answers) {
    const std::span<float> own(scores, a->at.size() * V);
    scores += own.size();
    step(*a, own, prompts);
  }
}

void Generator::step(Answer& a, std::span<float> scores, PromptSource& prompts) {
  if (a.prompt->scores) prompts.scores(*a.prompt, scores, std::nullopt);
  try {
    a.open = a.decoding->step(scores);
  } catch (const UserError& e) {
    a.open = false;
    return prompts.failed(*a.prompt, e);
  }
  if (a.open) return place(a);
  if (const auto end = a.decoding->end_token()) prompts.end_token(*a.prompt, *end);
  prompts.ended(*a.prompt);
}

void Generator::remake(Answer& a) {
  const std::span<const Branch> branches = a.decoding->branches();
  for (std::size_t i = 0; i < branches.size(); ++i) {
    Continuation c{.input_ids = branches[i].ids, .slots = {a.at[i]}, .past = {0}, .acts_from = {a.acts_from}};
    c.starts.push_back(static_cast<std::int32_t>(c.rows()));
    tokens_computed_ += c.rows();
    if (on_rows_) on_rows_(std::array{AdapterRows{0, c.rows(), a.prompt->adapter}});
    decoding_.extend(context_, store_, cache_, c, logits_.slice(0, 1));
  }
  a.held = static_cast<std::int32_t>(branches[0].ids.size()) - 1;
}

void Generator::score_prompt(Answer& a, PromptSource& prompts) {
  const std::vector<std::int32_t>& ids = a.prompt->ids;
  const auto most = static_cast<std::int32_t>(ids.size()) - 1;
  const auto V = static_cast<std::size_t>(model_.vocab_size());
  while (a.held < most) {
    const auto count = std::min(most - a.held, static_cast<std::int32_t>(shape_.scored));
    Continuation c{.input_ids = {ids.begin() + a.held, ids.begin() + a.held + count},
                   .starts = {0, count},
                   .slots = {a.at[0]},
                   .past = {a.held},
                   .acts_from = {a.acts_from}};
    c.wanted.resize(static_cast<std::size_t>(count));
    std::iota(c.wanted.begin(), c.wanted.end(), 0);
    tokens_computed_ += count;
    if (on_rows_) on_rows_(std::array{AdapterRows{0, count, a.prompt->adapter}});
    decoding_.extend(context_, store_, cache_, c, logits_.slice(0, count));
    download(count);
    for (std::int32_t i = 0; i < count; ++i)
      prompts.scores(*a.prompt, {scores_.data() + static_cast<std::size_t>(i) * V, V},
                     ids[static_cast<std::size_t>(a.held + i + 1)]);
    a.held += count;
  }
}

// Computes one token in an unused slot.
void Generator::idle() {
  Continuation c;
  c.input_ids = {0};
  c.starts = {0, 1};
  c.slots = {0};
  c.past = {0};
  if (shape_.cache.sources > 0) {
    c.sources = {0};
    c.source_lengths = {1};
  }
  decoding_.extend(context_, store_, cache_, c, logits_.slice(0, 1));
}

void Generator::run(std::span<const Prompt> prompts, const OnToken& on_token, const AnyRank& any_rank) {
  if (any_rank && 0 < decoding_.keys_turn_at() && decoding_.keys_turn_at() < shape_.cache.capacity)
    throw UserError(Exit::config,
                    str("answers may grow beyond ", decoding_.keys_turn_at(),
                        " tokens, where longrope's factors change, which ranks that gather parameters "
                        "together cannot do; use zero_optimization.stage 2 or lower, or shorter answers"));
  const auto anywhere = [&](bool here) { return any_rank ? any_rank(here) : here; };
  Listed listed(prompts, on_token);
  for (;;) {
    const bool here = listed.front() != nullptr || !answers_.empty();
    if (!anywhere(here)) return;
    std::vector<Answer*> fresh = admit(listed);
    if (shape_.cache.sources > 0 && anywhere(!fresh.empty())) encode(fresh);
    here ? turn(std::move(fresh), listed) : idle();
  }
}

bool Generator::pass(PromptSource& prompts) {
  std::vector<Answer*> fresh = admit(prompts);
  if (answers_.empty()) return false;
  if (shape_.cache.sources > 0 && !fresh.empty()) encode(fresh);
  turn(std::move(fresh), prompts);
  return true;
}

void Generator::turn(std::vector<Answer*> now, PromptSource& prompts) {
  if (now.empty())
    for (Answer& a : answers_) now.push_back(&a);
  if (on_rows_)
    std::stable_sort(now.begin(), now.end(), [](const Answer* a, const Answer* b) {
      return a->prompt->adapter < b->prompt->adapter;
    });
  extend(now, prompts);
  std::erase_if(answers_, [&](const Answer& a) {
    if (!a.open) free_.push_back(a.slots[0]);
    return !a.open;
  });
}

}  // namespace ft
