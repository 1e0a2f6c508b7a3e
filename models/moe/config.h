// The config.json of decoders with experts: Mixtral, Qwen2-MoE, Qwen3-MoE, OLMoE; and the experts of
// Qwen3-Next, Qwen3.5 and gpt-oss.
#pragma once
#include "engine/ops/route_rule.h"
#include "models/decoder/config.h"

namespace ft::moe {

struct Config : decoder::Config {
  std::int64_t experts = 0, choices = 0, expert_width = 0;
  std::int64_t shared_width = 0;       // width of the expert that all tokens use; 0: none
  bool shared_gated = true;            // the shared expert has a gate
  RouteRule rule{.normalised = true};  // turns logits into a token's experts and their weights
  bool corrected = false;              // routers choose experts with a bias
  bool wide_routers = false;           // routers are f32 in every dtype, in files too
  float balance = 0;                   // coefficient of the routers' loss; 0: not added
  bool norms_whole_rows = false;       // queries' and keys' norms cover all heads together
  std::vector<bool> sparse;            // by layer: it has experts
};

// Reads the settings of the experts, for a family that reads the others itself.
void read_experts(Config&, const JsonObject&);
// Throws UserError (input) with the file and the key if a key is missing, wrong or not supported.
Config read_config(const std::string& config_json);

}  // namespace ft::moe
