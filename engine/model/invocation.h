// Adapters that act from a sequence of tokens on (Greenewald et al., "Activated LoRA", 2025): the rows of a
// pass on which they do, as PEFT chooses them.
#pragma once
#include <span>
#include <vector>

#include "engine/core/batch.h"
#include "engine/layers/attention/kv_cache.h"
#include "engine/pass/context.h"

namespace ft {

// Returns the place in `ids` where `tokens` stand for the last time; ids.size() if they are not there.
std::int64_t last_place(std::span<const std::int32_t> ids, std::span<const std::int32_t> tokens);

// Sets Ctx::active while a pass runs. Without tokens it sets nothing.
class Invocation {
 public:
  // Each sequence's rows are active from the last place of the tokens on.
  Invocation(Ctx&, const Batch&, std::span<const std::int32_t> tokens);
  // Rows are active from Continuation::acts_from on.
  Invocation(Ctx&, const Continuation&, std::span<const std::int32_t> tokens);
  ~Invocation() { c_.active = before_; }
  Invocation(const Invocation&) = delete;

 private:
  Ctx& c_;
  const ActiveRows* before_;
  ActiveRows rows_;
};

}  // namespace ft
