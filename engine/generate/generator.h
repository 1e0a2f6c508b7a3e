// Answers to prompts, several at once: the loop of generation. A prompt is computed whole when the cache has
// room for it; all active answers then get one token per pass. A finished answer gives its slot to the next
// prompt, so that passes stay full. Answers do not depend on each other.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/core/error.h"
#include "engine/generate/decoding.h"
#include "engine/layers/adapter_rows.h"
#include "engine/model/model.h"
#include "engine/zero/parameter_store.h"

namespace ft {

// What memory is needed for these prompts, `at_once` of them at a time, each with `beams` branches.
GenerationShape generation_shape(std::span<const Prompt>, std::int64_t at_once, std::int64_t beams = 1);

// Prompts that come while others are being answered, and where their answers go.
class PromptSource {
 public:
  virtual ~PromptSource() = default;
  // The next one, which lives until it has ended or failed; null: none now.
  virtual const Prompt* front() = 0;
  virtual void pop() = 0;  // the front is being answered now
  // For prompts that ask for it: the model's scores of the next token, before they are changed to choose one.
  // `given`: the prompt's token there; nothing: it is to be chosen.
  virtual void scores(const Prompt&, std::span<const float>, std::optional<std::int32_t> /*given*/) {}
  // Each new token, except the end token; false ends this answer after it.
  virtual bool token(const Prompt&, std::int32_t token) = 0;
  virtual void ended(const Prompt&) = 0;
  // No token can be chosen for it: its scores are no numbers.
  virtual void failed(const Prompt&, const UserError&) = 0;
};

class Generator {
 public:
  // Takes its memory from the arenas of the context, which a plan with this shape has reserved.
  Generator(Ctx&, ParameterStore&, Model&, GenerationShape, TokenChooser);

  // Called for each new token of prompts[i], except the end token; false ends this answer after it. A beam
  // search delivers all tokens of an answer at its end.
  using OnToken = std::function<bool(std::size_t i, std::int32_t token)>;
  // For ranks that must make their passes together because parameters are gathered for them: whether any rank
  // has something to do, given whether this one has. A rank without work makes idle passes.
  using AnyRank = std::function<bool(bool here)>;
  void run(std::span<const Prompt> prompts, const OnToken&, const AnyRank& any_rank = {});

  // One pass: of new prompts, where there are some and room for them, else of all answers under way. False:
  // there was nothing to do.
  bool pass(PromptSource&);
  std::int64_t answering() const { return static_cast<std::int64_t>(answers_.size()); }

  // Called before each pass with all of its rows. For a model whose adapters tell prompts apart.
  using OnRows = std::function<void(std::span<const AdapterRows>)>;
  void before_each_pass(OnRows f) { on_rows_ = std::move(f); }

  // From now on a prompt reuses its slot of the cache as far as they begin with the same tokens, so that in a
  // conversation only new tokens are computed. The rounding of an answer then depends on earlier turns.
  void keep_cache() {
    require(width_ == 1, "beams keep no cache");
    keeps_ = true;
  }
  std::int64_t tokens_computed() const { return tokens_computed_; }

 private:
  struct Answer {
    const Prompt* prompt;
    std::unique_ptr<Decoding> decoding;
    std::vector<std::int32_t> slots;  // of the cache: this answer's
    std::vector<std::int32_t> at;     // (branches) the slot of each
    std::int32_t held = 0;            // tokens of each branch that its slot holds
    bool open = true;
  };
  // The next prompts that fit into the free slots and one pass.
  std::vector<Answer*> admit(PromptSource&);
  bool fits(const Prompt&) const;
  // An encoder-decoder's sources; all branches of an answer read their places in the cache. Without sources,
  // an idle pass.
  void encode(const std::vector<Answer*>& fresh);
  std::int32_t place_of(const Answer& a) const { return a.slots[0] / width_; }
  std::unique_ptr<Decoding> decode(const Prompt&, Decoding::OnToken) const;
  // All answers under way, if there are no new ones; those with one adapter side by side.
  void turn(std::vector<Answer*> fresh, PromptSource&);
  // One pass: of each branch all ids that its slot does not hold yet, and the token after them.
  void extend(const std::vector<Answer*>&, PromptSource&);
  void step(Answer&, std::span<float> scores, PromptSource&);
  // Each branch takes its parent's slot; where several have one parent, the others take it in copy to slots
  // whose branch was given up.
  void place(Answer&);
  void idle();
  // Makes the keys of an answer's branches anew; but of their last token, which the next pass computes.
  void remake(Answer&);
  // Gives out the scores of a prompt's tokens; but of the one behind it, which the next pass computes.
  void score_prompt(Answer&, PromptSource&);
  void download(std::int64_t sequences);  // logits to scores_

  Ctx& context_;
  ParameterStore& store_;
  Model& model_;
  GenerationShape shape_;
  TokenChooser chooser_;
  Scope memory_;
  KvCache cache_;
  Tensor logits_;       // (shape_.logit_rows(), V)
  std::int32_t width_;  // slots of an answer
  std::vector<Answer> answers_;
  std::vector<std::int32_t> free_;  // the first of `width_` slots each
  std::vector<float> scores_;
  std::vector<std::uint16_t> narrow_;  // the same in bf16 or f16, as the device has them
  OnRows on_rows_;
  bool keeps_ = false;
  std::vector<std::int32_t> kept_;  // with keep_cache(): what the first slot holds
  std::int64_t tokens_computed_ = 0;
};

}  // namespace ft
