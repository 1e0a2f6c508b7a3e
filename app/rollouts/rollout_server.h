// A server with OpenAI's API that generates a run's answers: ft serve, vLLM or another. Prompts are sent as
// token ids to /v1/completions, with `logprobs` and `return_token_ids`. Adapters are handed over as folders,
// by vLLM's /v1/load_lora_adapter and /v1/unload_lora_adapter. Replies are not trusted.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "app/rollouts/server_client.h"
#include "engine/generate/config.h"

namespace ft {

// Answers with the server's log-probability of each token.
struct SampledAnswers {
  std::vector<std::vector<std::int32_t>> tokens;
  std::vector<std::vector<double>> logps;
};

// Prompts that get `count` answers each.
struct AskedPrompt {
  std::span<const std::int32_t> ids;
  std::int64_t count = 1;
  std::int64_t most = 1;  // tokens of an answer
  std::int64_t seed = 0;  // of its answers
};

class RolloutServer {
 public:
  struct Rules {
    ServerAccess access;
    GenerationConfig sampling;
    std::vector<std::int32_t> end_tokens;
    std::int64_t vocab_size = 0;
  };
  explicit RolloutServer(Rules rules) : rules_(std::move(rules)) {}

  // All functions throw UserError: as ServerClient does, and (input) for a wrong reply.

  // Returns the names of the models and adapters that the server lists, at least one.
  std::vector<std::string> models() const;
  // Makes the adapter in a folder, which the server must see under this path, its model of this name.
  void load_adapter(const std::string& name, const std::string& folder) const;
  // Does nothing if the server has no adapter of this name. seconds: the most that it may take, if that is
  // less than ServerAccess::seconds.
  void unload_adapter(const std::string& name, double seconds = 1e8) const;
  // Returns the answers of a model, prompt after prompt. Asks for many prompts at once. stop: asked often;
  // true ends it with ServerClient::Cancelled.
  SampledAnswers answers(const std::string& model, std::span<const AskedPrompt>,
                         const std::function<bool()>& stop = {}) const;

 private:
  std::string body_of(const std::string& model, const AskedPrompt&) const;
  SampledAnswers ask(ServerClient&, const std::string& model, const AskedPrompt&) const;

  Rules rules_;
};

// Returns the answers in a reply of /v1/completions, in the order of their indexes. Throws
// std::invalid_argument with a text that goes on after "/v1/completions: ".
SampledAnswers read_completions(const std::string& body, const AskedPrompt&,
                                std::span<const std::int32_t> end_tokens, std::int64_t vocab_size);

}  // namespace ft
