#include "app/answers.h"

#include <algorithm>

namespace ft {
namespace {

struct Dialogue {
  std::vector<std::int32_t> ids;  // the prompt, then the answer so far
  std::size_t prompt = 0;         // how many of them are the prompt
  std::vector<std::int32_t> expected;
  bool done = false;
};

Dialogue dialogue(SampleStore::View sample) {
  const auto first = std::find_if(sample.labels.begin() + 1, sample.labels.end(),
                                  [](std::int32_t label) { return label != kIgnored; });
  const auto length = first - sample.labels.begin();
  Dialogue d;
  d.prompt = static_cast<std::size_t>(length);
  d.ids.assign(sample.input_ids.begin(), sample.input_ids.begin() + length);
  d.expected.assign(sample.input_ids.begin() + length, sample.input_ids.end());
  return d;
}

// One sequence after another, of each the row that predicts the next token.
Batch batch_of(const std::vector<Dialogue*>& open) {
  Batch b;
  b.starts.push_back(0);
  for (const Dialogue* d : open) {
    for (std::size_t i = 0; i < d->ids.size(); ++i) b.positions.push_back(static_cast<std::int32_t>(i));
    b.input_ids.insert(b.input_ids.end(), d->ids.begin(), d->ids.end());
    b.starts.push_back(static_cast<std::int32_t>(b.input_ids.size()));
    b.target_rows.push_back(b.starts.back() - 1);
    b.targets.push_back(0);
  }
  return b;
}

class Greedy {
 public:
  Greedy(Engine& engine, Model& model, const AnswerRequest& request)
      : engine_(engine),
        model_(model),
        request_(request),
        memory_(engine.ops->allocate(request.at_once * model.vocab_size() * size_of(engine.context.dtype))) {
    engine.context.train = false;
  }

  // Adds tokens to all until each has ended.
  void finish(std::vector<Dialogue>& dialogues) {
    const auto most = static_cast<std::size_t>(request_.data.longest());
    for (;;) {
      std::vector<Dialogue*> open;
      for (Dialogue& d : dialogues)
        if (!d.done && d.ids.size() < most) open.push_back(&d);
      if (open.empty()) return;
      const std::vector<std::int32_t> next = likeliest(batch_of(open));
      for (std::size_t i = 0; i < open.size(); ++i) {
        open[i]->done = next[i] == request_.tokenizer->eos();
        if (!open[i]->done) open[i]->ids.push_back(next[i]);
      }
    }
  }

 private:
  std::vector<std::int32_t> likeliest(const Batch& batch) {
    const auto rows = static_cast<std::int64_t>(batch.targets.size()), V = model_.vocab_size();
    Tensor logits(memory_.get(), engine_.context.dtype, {rows, V});
    model_.logits(engine_.context, engine_.store, batch, logits);
    const std::vector<float> values = floats(logits);
    std::vector<std::int32_t> best;
    for (std::int64_t row = 0; row < rows; ++row) {
      const auto begin = values.begin() + row * V;
      best.push_back(static_cast<std::int32_t>(std::max_element(begin, begin + V) - begin));
    }
    return best;
  }

  std::vector<float> floats(Tensor x) {
    std::vector<float> out(static_cast<std::size_t>(x.shape.numel()));
    if (x.dtype == DType::f32) {
      engine_.ops->download(out.data(), x);
      return out;
    }
    std::vector<bf16> narrow(out.size());
    engine_.ops->download(narrow.data(), x);
    std::transform(narrow.begin(), narrow.end(), out.begin(), [](bf16 v) { return to_float(v); });
    return out;
  }

  Engine& engine_;
  Model& model_;
  const AnswerRequest& request_;
  Buffer memory_;  // of the logits
};

}  // namespace

BatchShape answer_shape(const AnswerRequest& r) {
  return {.tokens = r.at_once * r.data.longest(),
          .targets = r.at_once,
          .sequences = r.at_once,
          .longest = r.data.longest()};
}

std::vector<Answer> greedy_answers(Engine& engine, Model& model, const AnswerRequest& request,
                                   const std::function<void(std::int64_t, std::int64_t)>& progress) {
  Greedy greedy(engine, model, request);
  const std::int64_t count = std::min(request.count, request.data.size());
  const auto text = [&](std::span<const std::int32_t> ids) { return request.tokenizer->decode(ids, true); };
  std::vector<Answer> answers;
  for (std::int64_t begin = 0; begin < count; begin += request.at_once) {
    std::vector<Dialogue> dialogues;
    for (std::int64_t i = begin; i < std::min(count, begin + request.at_once); ++i)
      dialogues.push_back(dialogue(request.data[i]));
    greedy.finish(dialogues);
    for (const Dialogue& d : dialogues) {
      const std::span<const std::int32_t> ids(d.ids);
      answers.push_back({text(ids.first(d.prompt)), text(d.expected), text(ids.subspan(d.prompt))});
    }
    progress(static_cast<std::int64_t>(answers.size()), count);
  }
  return answers;
}

}  // namespace ft
