#include "engine/generate/generator.h"

#include <algorithm>

namespace ft {
namespace {

constexpr std::int64_t kPassTokens = 2048;  // of prompts in one pass, unless a single one is longer

}  // namespace

GenerationShape generation_shape(std::span<const Prompt> prompts, std::int64_t at_once) {
  GenerationShape s;
  std::int64_t all = 0, longest = 0;
  for (const Prompt& p : prompts) {
    const auto length = static_cast<std::int64_t>(p.ids.size());
    s.cache.capacity = std::max(s.cache.capacity, length + p.max_new_tokens);
    longest = std::max(longest, length);
    all += length;
  }
  s.cache.slots = std::min(at_once, static_cast<std::int64_t>(prompts.size()));
  s.tokens = std::max(longest, std::min({all, kPassTokens, s.cache.slots * longest}));
  s.tokens = std::max(s.tokens, s.cache.slots);
  return s;
}

Generator::Generator(Ctx& context, ParameterStore& store, Model& model, GenerationShape shape,
                     TokenChooser chooser)
    : context_(context),
      store_(store),
      model_(model),
      shape_(shape),
      chooser_(std::move(chooser)),
      memory_(context.saved),
      cache_(model.make_kv_cache(context.saved, shape.cache, context.dtype)),
      logits_(context.saved.take({shape.cache.slots, model.vocab_size()}, context.dtype)) {
  context.train = false;
  for (std::int64_t slot = shape.cache.slots; slot-- > 0;) free_.push_back(static_cast<std::int32_t>(slot));
  answers_.reserve(free_.size());
  scores_.resize(static_cast<std::size_t>(logits_.numel()));
  if (context.dtype == DType::bf16) narrow_.resize(scores_.size());
}

std::vector<Generator::Answer*> Generator::admit(std::span<const Prompt> prompts, std::size_t& next) {
  std::vector<Answer*> fresh;
  std::int64_t tokens = 0;
  while (next < prompts.size() && !free_.empty()) {
    const Prompt& p = prompts[next];
    const auto length = static_cast<std::int64_t>(p.ids.size());
    require(length > 0 && length + p.max_new_tokens <= shape_.cache.capacity && length <= shape_.tokens,
            "a prompt that was not planned for");
    if (tokens > 0 && tokens + length > shape_.tokens) break;
    tokens += length;
    answers_.push_back({next++, p.ids, length + p.max_new_tokens, free_.back()});
    free_.pop_back();
    fresh.push_back(&answers_.back());  // answers_ never grows beyond what is reserved
  }
  return fresh;
}

void Generator::download(std::int64_t sequences) {
  const Tensor rows = logits_.slice(0, sequences);
  if (rows.dtype == DType::f32) return context_.ops.download(scores_.data(), rows);
  context_.ops.download(narrow_.data(), rows);
  std::transform(narrow_.begin(), narrow_.begin() + rows.numel(), scores_.begin(),
                 [](bf16 v) { return to_float(v); });
}

void Generator::extend(const std::vector<Answer*>& answers, std::span<const Prompt> prompts,
                       const OnToken& on_token) {
  Continuation c;
  for (Answer* a : answers) {
    c.input_ids.insert(c.input_ids.end(), a->ids.begin() + a->held, a->ids.end());
    c.starts.push_back(static_cast<std::int32_t>(c.rows()));
    c.slots.push_back(a->slot);
    c.past.push_back(a->held);
    a->held = static_cast<std::int32_t>(a->ids.size());
  }
  model_.extend(context_, store_, cache_, c, logits_.slice(0, c.sequences()));
  download(c.sequences());
  const auto V = static_cast<std::size_t>(model_.vocab_size());
  const Random random = Random{static_cast<std::uint64_t>(chooser_.config().seed)}.with("generate");
  for (std::size_t i = 0; i < answers.size(); ++i) {
    Answer& a = *answers[i];
    const std::span<float> scores(scores_.data() + i * V, V);
    const Prompt& p = prompts[a.index];
    const std::int32_t token = chooser_.choose(scores, a.ids, p.ids.size(), random.with(p.number));
    a.open = !chooser_.ends(token);
    if (!a.open) continue;
    a.ids.push_back(token);
    a.open = on_token(a.index, token) && static_cast<std::int64_t>(a.ids.size()) < a.most;
  }
}

void Generator::run(std::span<const Prompt> prompts, const OnToken& on_token) {
  for (std::size_t next = 0; next < prompts.size() || !answers_.empty();) {
    std::vector<Answer*> now = admit(prompts, next);
    if (now.empty())
      for (Answer& a : answers_) now.push_back(&a);
    extend(now, prompts, on_token);
    std::erase_if(answers_, [&](const Answer& a) {
      if (!a.open) free_.push_back(a.slot);
      return !a.open;
    });
  }
}

}  // namespace ft
