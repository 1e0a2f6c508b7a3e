#include "lora/activated.h"

#include <algorithm>

#include "engine/ops/ops.h"

namespace ft::lora {
namespace {

// Sets the rows that are not active to zero.
void quiet(Ctx& c, Tensor u) {
  require(c.active && c.active->rows == u.rows(), "a pass of invoked adapters over rows that nobody counted");
  std::int64_t from = 0;
  const auto clear = [&](std::int64_t to) {
    if (from < to) c.ops.run(op::Fill{u.slice(from, to), 0});
  };
  for (const auto& [begin, end] : c.active->runs) {
    clear(begin);
    from = end;
  }
  clear(u.rows());
}

}  // namespace

void ActivatedLora::down(Ctx& c, Tensor u, Tensor x) const {
  LoraAdapter::down(c, u, x);
  quiet(c, u);
}

void ActivatedLora::up_grad(Ctx& c, Tensor du, Tensor dy, Tensor u) const {
  LoraAdapter::up_grad(c, du, dy, u);
  quiet(c, du);
}

void ActivatedLora::cut(Cut, TensorRank, const Parts&) {
  throw UserError(Exit::config,
                  "lora.alora_invocation_tokens: not with distributed.tensor_parallel_size yet; leave one of "
                  "the two out");
}

void ActivatedLora::merge(Ops&, const ParameterValues&, Tensor, bool) const {
  throw InternalError("a merge of adapters that act from tokens on");
}

void activate(Model& model, const LoraConfig& config, const Attached& attached, const Origin& origin) {
  if (!config.alora_invocation_tokens) return;
  const auto refuse = [&](const std::string& what) {
    throw UserError(origin.exit, str(origin.prefix, "alora_invocation_tokens: ", what));
  };
  if (config.use_dora) refuse("not with use_dora; leave one of the two out");
  if (config.lora_bias) refuse("not with lora_bias; leave one of the two out");
  if (start_of(config.init_lora_weights)->changes_base())
    refuse("not with pissa and olora, which change the base where the adapter does not act");
  if (!attached.experts.empty() || attached.single_experts) refuse("not on experts");
  if (attached.embedding || std::ranges::find(attached.linears, origin.head) != attached.linears.end())
    refuse("not on the embedding or the head; leave them out of target_modules");
  std::vector<std::int32_t> tokens;
  for (const std::int64_t id : *config.alora_invocation_tokens) {
    if (id < 0 || id >= model.vocab_size())
      refuse(str(id, " is not a token of this model, which has ", model.vocab_size()));
    tokens.push_back(static_cast<std::int32_t>(id));
  }
  if (tokens.empty()) refuse("names no tokens; leave it out for an adapter that always acts");
  if (config.task_type != "CAUSAL_LM" || !model.set_invocation(std::move(tokens)))
    refuse("only for decoders that answer, of task_type CAUSAL_LM");
}

}  // namespace ft::lora
