// The generation loop: answers several prompts at once. A prompt is computed in one pass when the cache has
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
#include "engine/model/cached_decoding.h"
#include "engine/model/model.h"
#include "engine/zero/parameter_store.h"

namespace ft {

// Returns the sizes of the memory that these prompts need, `at_once` of them at a time, each with `beams`
// branches.
GenerationShape generation_shape(std::span<const Prompt>, std::int64_t at_once, std::int64_t beams = 1);

// Supplies prompts, also while others are being answered, and receives the answers.
class PromptSource {
 public:
  virtual ~PromptSource() = default;
  // Returns the next prompt, which must live until it has ended or failed. Null: none now.
  virtual const Prompt* front() = 0;
  virtual void pop() = 0;  // the generator has started to answer front()
  // For prompts that ask for scores: the model's scores of the next token, before they are changed to choose
  // one. `given`: the prompt's token there; empty: the token is still to be chosen.
  virtual void scores(const Prompt&, std::span<const float>, std::optional<std::int32_t> /*given*/) {}
  // Receives each new token, except the end token. Return false to end this answer after it.
  virtual bool token(const Prompt&, std::int32_t token) = 0;
  // Receives the end token of an answer that has one, before ended().
  virtual void end_token(const Prompt&, std::int32_t /*token*/) {}
  virtual void ended(const Prompt&) = 0;
  // Reports that no token can be chosen for this prompt because a score is NaN.
  virtual void failed(const Prompt&, const UserError&) = 0;
};

class Generator {
 public:
  // Takes its memory from the context's arenas. A plan with this shape must have reserved it.
  Generator(Ctx&, ParameterStore&, Model&, GenerationShape, TokenChooser);

  // Called for each new token of prompts[i], except the end token. Return false to end this answer after it.
  // A beam search delivers all tokens of an answer at its end.
  using OnToken = std::function<bool(std::size_t i, std::int32_t token)>;
  // For ranks that must make their passes together because they gather parameters: returns whether any rank
  // has work, given whether this rank has. A rank without work makes idle passes.
  using AnyRank = std::function<bool(bool here)>;
  void run(std::span<const Prompt> prompts, const OnToken&, const AnyRank& any_rank = {});

  // Makes one pass: over new prompts if some fit, otherwise over all active answers. Returns false if there
  // was nothing to do.
  bool pass(PromptSource&);
  std::int64_t answering() const { return static_cast<std::int64_t>(answers_.size()); }

  // Called before each pass with the rows of the pass, for a model with several adapters.
  using OnRows = std::function<void(std::span<const AdapterRows>)>;
  void before_each_pass(OnRows f) { on_rows_ = std::move(f); }

  // From now on a prompt reuses the cached tokens of its slot up to the first that differs, so that in a
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
    std::vector<std::int32_t> slots;  // this answer's slots of the cache
    std::vector<std::int32_t> at;     // (branches) each branch's slot
    std::int32_t held = 0;            // tokens of each branch in its slot
    std::int32_t acts_from = 0;       // see Continuation
    bool open = true;
  };
  // Starts the next prompts that fit into the free slots and into one pass.
  std::vector<Answer*> admit(PromptSource&);
  bool fits(const Prompt&) const;
  // Encodes the sources of new answers (encoder-decoders). All branches of an answer read the same place in
  // the cache. Without new answers it makes an idle pass.
  void encode(const std::vector<Answer*>& fresh);
  std::int32_t place_of(const Answer& a) const { return a.slots[0] / width_; }
  std::unique_ptr<Decoding> decode(const Prompt&, Decoding::OnToken) const;
  std::int32_t acts_from(const Prompt&) const;
  // Advances the new answers, or all active ones if none are new. Answers with one adapter are adjacent in a
  // pass.
  void turn(std::vector<Answer*> fresh, PromptSource&);
  // Makes one pass: computes, for each branch, the ids that its slot does not hold yet, and chooses the next
  // token.
  void extend(const std::vector<Answer*>&, PromptSource&);
  void step(Answer&, std::span<float> scores, PromptSource&);
  // Gives each branch its parent's slot. If branches share a parent, all but the first get a copy, in the
  // slots of dropped branches.
  void place(Answer&);
  void idle();
  // Recomputes the keys of an answer's branches, except their last token's, which the next pass computes.
  void remake(Answer&);
  // Reports the scores of a prompt's tokens. The next pass computes the scores of the token after the prompt.
  void score_prompt(Answer&, PromptSource&);
  void download(std::int64_t sequences);  // logits to scores_

  Ctx& context_;
  ParameterStore& store_;
  Model& model_;
  CachedDecoding& decoding_;
  GenerationShape shape_;
  TokenChooser chooser_;
  Scope memory_;
  KvCache cache_;
  Tensor logits_;       // (shape_.logit_rows(), V)
  std::int32_t width_;  // slots of an answer
  std::vector<Answer> answers_;
  std::vector<std::int32_t> free_;  // the first slot of each free answer
  std::vector<float> scores_;
  std::vector<std::uint16_t> narrow_;  // scores in bf16 or f16, in the device's format
  OnRows on_rows_;
  bool keeps_ = false;
  std::vector<std::int32_t> kept_;   // with keep_cache(): the tokens in the first slot
  std::int32_t kept_acts_from_ = 0;  // and the position from which adapters act on them
  std::int64_t tokens_computed_ = 0;
};

}  // namespace ft
